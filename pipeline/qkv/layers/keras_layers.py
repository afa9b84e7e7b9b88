"""Dense layers, dropout and layer normalisation with fewer operations than Keras' own, and shapes of arrays."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


class FloatOnly:
    """Base class, listed before the class of Keras, of layers that compute with floats only.

    `quantize`, and a call with a quantized dtype policy, raise a `NotImplementedError`. Keras' int8 products are slower
    than float32 on a CPU, and Keras does not restore quantized layers within other layers from a file.
    """

    name: str

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        raise self._no_quantization()

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        raise self._no_quantization()

    def _no_quantization(self) -> NotImplementedError:
        return NotImplementedError(
            f"{self.name}: {type(self).__name__} computes with floats only; dtype='bfloat16' halves its weights instead"
        )


@keras.saving.register_keras_serializable(package="qkv")
class Dense(FloatOnly, keras.layers.Dense):
    """`activation(x W + b)` over the last axis, as `keras.layers.Dense`.

    TensorFlow fuses product, bias and activation for inputs with two axes, so all axes but the last are flattened
    first. On a GPU the gradient of b is computed by `column_sums`.

    Args, call arguments and returns: as in `keras.layers.Dense`.

    Example:
        >>> Dense(3)(keras.ops.ones((2, 5, 4))).shape
        TensorShape([2, 5, 3])
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        shape = dynamic_shape(inputs)
        rows = ops.reshape(inputs, (-1, shape[-1]))
        if self.use_bias and _is_on_gpu():
            rows = self.activation(_add_bias(ops.matmul(rows, self.kernel), ops.cast(self.bias, rows.dtype)))
        else:
            rows = super().call(rows, training=training)
        return reshape(rows, (*shape[:-1], self.units))


@ops.custom_gradient
def _add_bias(rows: Any, bias: Any) -> Any:
    """Adds a bias `(N,)` to rows `(R, N)`; the gradient of the bias is computed by `column_sums`."""
    return ops.add(rows, bias), lambda upstream: (upstream, column_sums(upstream))


def column_sums(*arrays: Any) -> Any:
    """Sums arrays of one shape `(..., D)` over all axes but the last.

    On a GPU with TensorFlow, the sum is computed as a product with ones. TensorFlow's kernels for such sums took 45 %
    of an update, and 0.46 ms for the gradient of a bias of 16,384 rows in bfloat16 on an H200.

    Returns:
        `(D,)` for each array; without a tuple if there is one array.
    """
    if _is_on_gpu():
        rows = [ops.reshape(x, (-1, x.shape[-1])) for x in arrays]
        ones = ops.ones((1, dynamic_shape(rows[0])[0]), rows[0].dtype)
        sums = [ops.reshape(ops.matmul(ones, x), (x.shape[-1],)) for x in rows]  # an index would be an operation
    else:
        sums = [ops.sum(x, list(range(len(x.shape) - 1))) for x in arrays]
    return sums[0] if len(sums) == 1 else tuple(sums)


def _is_on_gpu() -> bool:
    """Returns True if the backend is TensorFlow and a GPU is visible to it. Other backends need no faster sums."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf  # the layers need no TensorFlow on other backends

    return bool(tf.config.get_visible_devices("GPU"))


@keras.saving.register_keras_serializable(package="qkv")
class Dropout(keras.layers.Dropout):
    """Sets numbers to zero at random in training and scales up the other numbers (Srivastava et al. 2014).

    `keras.layers.Dropout` draws a float for each number. This layer draws a random byte, because random numbers are
    most of the cost of dropout on a CPU. So the share that is dropped is the multiple of 1/256 nearest to `rate`
    (0.1016 for 0.1), and the other numbers are scaled accordingly. Between 0 and 1, the share is at least 1/256 and at
    most 255/256.

    Args:
        rate: the share of the numbers set to zero, from 0 to 1.
        seed: an int, the seed of the random numbers; None for a random seed.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        inputs: float, any shape.
        training: whether dropout is applied; otherwise `inputs` are returned.

    Returns:
        float, of the shape and type of `inputs`.

    Raises:
        ValueError: `rate` is not from 0 to 1.

    Example:
        >>> layer = Dropout(0.5)
        >>> sorted(set(layer(keras.ops.ones(1000), training=True).numpy().tolist()))
        [0.0, 2.0]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(rate, seed=seed, **kwargs)
        self.dropped_bytes = min(max(round(256 * rate), 1), 255) if 0 < rate < 1 else round(256 * rate)

    def call(self, inputs: Any, training: bool | None = False) -> Any:
        if not training or not self.dropped_bytes:
            return inputs
        if self.dropped_bytes == 256:
            return ops.zeros_like(inputs)
        kept = self._bytes(dynamic_shape(inputs)) >= self.dropped_bytes
        scale = ops.cast(256 / (256 - self.dropped_bytes), inputs.dtype)
        return _product_with_constant(inputs, ops.where(kept, scale, ops.zeros_like(scale)))

    def _bytes(self, shape: Any) -> Any:
        """Returns uint8 of a shape, random numbers from 0 to 255."""
        count = math.prod(shape)
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf  # the layers need no TensorFlow on other backends

            numbers = tf.bitcast(self._words_of_64_bits(count), tf.uint8)  # `ops.view` would be sixteen operations
        else:
            numbers = ops.view(self._words(count), "uint8")
        if not (isinstance(shape[-1], int) and shape[-1] % 8 == 0):  # whole words may hold more bytes
            numbers = ops.reshape(numbers, (-1,))[:count]
        return ops.reshape(numbers, shape)

    def _words(self, count: Any) -> Any:
        """Returns random int32 `(words, 1)` that hold at least `count` bytes."""
        return keras.random.randint(((count + 3) // 4, 1), -(2**31), 2**31 - 1, seed=self.seed_generator)

    def _words_of_64_bits(self, count: Any) -> Any:
        """Returns the same bytes as `_words`, as int64 `(words, 1)`.

        TensorFlow reshapes int32 in the host's memory, so every mask would be copied from a GPU and back.
        """
        import tensorflow as tf  # the layers need no TensorFlow on other backends

        with tf.device("CPU:0"):  # TensorFlow reads seeds in the host's memory; the formula is that of Keras
            seed = tf.cast(tf.math.floormod(self.seed_generator.next(), tf.int32.max - 1), tf.int32)
        words = tf.random.stateless_uniform(((count + 7) // 8, 1), seed, None, None, tf.int64)
        return ops.bitwise_xor(words, 2**31 - 2**63)  # `randint` flips the highest bit of each half

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["noise_shape"]
        return config


def _product_with_constant(x: Any, constant: Any) -> Any:
    """Multiplies x by an array of the same shape that has no gradient.

    If the shapes are unknown, the gradient of an ordinary product starts with eight operations on shapes.
    """

    @ops.custom_gradient
    def product(x):
        def gradient(*arguments, upstream=None):
            upstream = arguments[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            return upstream * constant

        return x * constant, gradient

    return product(x)


def dynamic_shape(x: Any) -> tuple[Any, ...]:
    """Returns the shape of x as `keras.ops.shape` does: a tuple of ints, with scalar tensors for unknown axes.

    Keras adds four operations to the graph for each unknown axis. This function adds two for all unknown axes together.

    Example:
        >>> dynamic_shape(ops.ones((2, 5, 4)))
        (2, 5, 4)
    """
    if keras.backend.backend() != "tensorflow" or isinstance(x, keras.KerasTensor):
        return ops.shape(x)
    shape = tuple(x.shape)
    if None not in shape:
        return shape
    import tensorflow as tf  # the layers need no TensorFlow on other backends

    unknown = tf.unstack(tf.shape(x))
    return tuple(axis if known is None else known for known, axis in zip(shape, unknown, strict=True))


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """Reshapes x as `keras.ops.reshape` does. A graph does not compute the size of an only unknown axis.

    Args:
        x: a tensor.
        shape: the new shape, ints and scalar tensors.
    """
    unknown = [i for i, axis in enumerate(shape) if not isinstance(axis, int)]
    if len(unknown) == 1 and all(axis > 0 for axis in shape if isinstance(axis, int)):
        shape = [-1 if i in unknown else axis for i, axis in enumerate(shape)]
    return ops.reshape(x, shape)


def rows_of_each(rows: Any, batch: Any) -> Any:
    """Returns the number of rows for each sentence, if `rows` rows are divided equally among `batch` sentences.

    Both are ints or scalar tensors. The result is 0 if a slice of a batch has no sentences.
    """
    return rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))


def check_sizes(**sizes: Any) -> None:
    """Checks that the sizes in a constructor's arguments are whole numbers of at least 1.

    Args:
        **sizes: the sizes by their names. None, for a default, is allowed.

    Raises:
        ValueError: a size is not a whole number, or is less than 1.

    Example:
        >>> check_sizes(num_heads=2, value_dim=None)
    """
    for name, size in sizes.items():
        if size is not None and (not hasattr(size, "__index__") or operator.index(size) < 1):
            raise ValueError(f"{name}: expected a whole number, 1 or more, found {size!r}")


@keras.saving.register_keras_serializable(package="qkv")
class LayerNormalization(keras.layers.LayerNormalization):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis (Ba et al. 2016, equation 4).

    In Keras' layer every operation has a gradient. The explicit gradient here takes half as many passes over memory.

    Args: as in `keras.layers.LayerNormalization`; `axis` and `rms_scaling` must keep their defaults.

    Call arguments:
        inputs: float `(..., D)`.

    Returns:
        float `(..., D)`, in the compute dtype; computed in float32 or higher precision.

    Example:
        >>> LayerNormalization(epsilon=0.0)(keras.ops.array([[1.0, 3.0]])).numpy().tolist()
        [[-1.0, 1.0]]
    """

    def call(self, inputs: Any) -> Any:
        wide = "float32" if keras.backend.standardize_dtype(inputs.dtype) in ("bfloat16", "float16") else inputs.dtype
        inputs, gamma, beta = (ops.cast(x, wide) for x in (inputs, self.gamma, self.beta))
        return ops.cast(_normalize(self.epsilon)(inputs, gamma, beta), self.compute_dtype)


def _normalize(epsilon: float) -> Any:
    """Returns the normalisation as a function of x `(..., D)`, gamma and beta `(D,)`, with an explicit gradient."""

    @ops.custom_gradient
    def normalize(x, gamma, beta):
        centred = x - ops.mean(x, -1, keepdims=True)
        inverse = ops.rsqrt(ops.mean(ops.square(centred), -1, keepdims=True) + epsilon)
        normal = centred * inverse

        def gradient(*arguments, upstream=None):
            upstream = arguments[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            # The gradient through gamma, minus its parts along the mean and along the variance.
            aligned = upstream * normal
            column = ops.expand_dims(gamma, -1) / x.shape[-1]
            along_mean = row_product(upstream, column)
            along_normal = row_product(aligned, column)
            by_x = (upstream * gamma - along_mean - normal * along_normal) * inverse
            return by_x, *column_sums(aligned, upstream)

        return normal * gamma + beta, gradient

    return normalize


def row_product(x: Any, matrix: Any) -> Any:
    """Computes the matrix product of x `(..., D)` and a matrix `(D, N)`: `(..., N)`.

    All axes but the last are flattened first. TensorFlow's product of more axes does so too, but it computes the number
    of rows on the device, and on a GPU waits for the result.
    """
    rows = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), matrix)
    return reshape(rows, (*dynamic_shape(x)[:-1], matrix.shape[-1]))
