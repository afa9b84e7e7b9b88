"""The interface of all architectures. Search, inspection and evaluation use only this interface.

- `encode(source_ids, training) -> Memory`
- `decode(target_ids, memory, cache, training) -> DecoderOutput`
- `start_cache(memory) -> cache`, for `decode` step by step
- `call(source_ids, target_ids) = decode(target_ids, encode(source_ids)).logits`
- `attention_layers()` and `layer_names(side)`: the layers whose values hooks can read and replace

If an architecture lacks an attention, such as self-attention in a recurrent model, its weights are an empty tuple.

Letters: B batch, H heads, T target positions, S source positions, D model width, V vocabulary.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import keras
from keras import ops

from ..attention.multi_head import AttentionLayer
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_added_layers, build_once
from ..layers.keras_layers import dynamic_shape, rows_of_each
from ..layers.low_rank import LowRank


class Memory(NamedTuple):
    """The encoder's result, which the decoder reads.

    - states: `(B, S, D)`.
    - mask: bool `(B, 1, 1, S)`, True at tokens and False at padding.
    - self_attention: the encoder's weights, a tuple with float32 `(B, H, S, S)` for each layer.
    - prepared: data for `decode` that do not depend on the target, such as keys. Only the architecture reads them.
    """

    states: Any
    mask: Any
    self_attention: tuple
    prepared: Any = ()


class DecoderOutput(NamedTuple):
    """The decoder's output at each target position. Row t is computed from input token t and predicts the next token.

    - states: `(B, T, D)`, before the output projection.
    - logits: float32 `(B, T, V)`.
    - cross: the weights on source positions, a tuple with float32 `(B, H, T, S)` for each layer. The weights of a row
      sum to 1; to less if the layer has a sink or attends to source and target at once.
    - decoder_self: the weights on target positions, a tuple with float32 `(B, H, T, T)` for each layer, or
      `(B, H, T, L + T)` with a cache of L positions.
    - cache: the cache for the next step; None if `decode` got none.

    A graph does not compute outputs that are not used: training uses no logits, and search no attention.
    """

    states: Any
    logits: Any
    cross: tuple
    decoder_self: tuple
    cache: Any


_generators: list[Callable[..., Any]] = []
"""The function of `register_generate`; empty until it is called."""


def register_generate(generate: Callable[..., Any]) -> Callable[..., Any]:
    """Registers the function that `TranslationModel.generate` calls, and returns it.

    Searches are made for models, so this package cannot import them: the module `decoding.generate` registers itself.

    Args:
        generate: a function of the model and the arguments of `TranslationModel.generate`.
    """
    _generators.append(generate)
    return generate


def rows_for_each(nested: Any, rows: Any) -> Any:
    """Repeats each row of tensors N times: `(B, ...) -> (B * N, ...)`. Copies of a row are adjacent.

    Args:
        nested: a tensor, or any nested structure of tensors. Scalars are not repeated.
        rows: B * N, an int or a scalar tensor.

    Returns:
        The same structure with the repeated tensors.
    """

    def repeat(x):
        shape = dynamic_shape(x)
        if not shape:
            return x
        copies = rows_of_each(rows, shape[0])  # N
        repeated = ops.broadcast_to(ops.expand_dims(x, 1), (shape[0], copies, *shape[1:]))
        return ops.reshape(repeated, (rows, *shape[1:]))

    return keras.tree.map_structure(repeat, nested)


class TranslationModel(ConstructorConfig, ReplaceableLayers, LowRank, keras.Model):
    """Base class of models that translate ids. A subclass defines `encode`, `decode` and `start_cache`.

    Args:
        **kwargs: the arguments of `keras.Model`.

    Call arguments:
        source_ids: whole numbers of any type, `(B, S)`, 0 for padding. For Keras' `fit` and `predict`, it may be a pair
            `(source_ids, target_ids)`, or a dict with the keys "source_ids" and "target_ids".
        target_ids: whole numbers of any type, `(B, T)`, starting with BOS; None if `source_ids` holds both.
        training: whether dropout is applied.

    Returns:
        Logits, float32 `(B, T, V)`; row t predicts the token after `target_ids[:, t]`.

    Attributes:
        source_embedding, target_embedding: the `TokenEmbedding`s of source and target ids.
        output_embedding: the `TokenEmbedding` that computes logits from states.
        source_loss: the weight of the training loss on source tokens, at least 0. If it is not 0, `Memory.states`
            predict the source tokens.
        max_positions: the maximum number of tokens of a source or a target; None if there is no limit.
    """

    output_embedding: Any
    source_loss = 0.0
    max_positions: Any = None
    _search_graphs: Any = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # or Keras would round ids of type float to half precision

    def encode(self, source_ids: Any, training: bool | None = None) -> Memory:
        """Encodes the source.

        Args:
            source_ids: int `(B, S)`, 0 for padding.
            training: whether dropout is applied.
        """
        raise NotImplementedError

    def decode(self, target_ids: Any, memory: Memory, cache: Any = None, training: bool | None = None) -> DecoderOutput:
        """Predicts the token after each target token.

        Args:
            target_ids: int `(B, T)`: whole targets that start with BOS, or with a cache only the next tokens. Padding
                may follow a target, because no token attends to it.
            memory: the result of `encode`.
            cache: the result of `start_cache`, or the `cache` of the previous step; None for whole targets. With a
                cache there may be N targets for each row of the memory, in adjacent rows: the hypotheses of a search.
                `start_cache` makes a cache for one target per row; `rows_for_each` repeats its rows.
            training: whether dropout is applied.
        """
        raise NotImplementedError

    def build_embeddings(self) -> None:
        """Builds the embeddings of source, target and output. A shared embedding is built once."""
        for embedding in (self.target_embedding, self.source_embedding, self.output_embedding):
            build_once(embedding, (None, None))

    def build_added_layers(self) -> None:
        """Builds the layers that a subclass has added, by a symbolic call."""
        build_added_layers(self, (None, None), (None, None), dtype="int32")

    def start_cache(self, memory: Memory) -> Any:
        """Makes the cache for the first step of `decode`.

        Args:
            memory: the result of `encode`.

        Returns:
            Any nested structure of tensors, each with a row for each target, or a scalar. It may grow with every step.
        """
        raise NotImplementedError

    def value_norms(self, memory: Memory) -> tuple[Any, ...]:
        """Returns the norms of the values of the cross-attention; see `MultiHeadAttention.value_norms`.

        Args:
            memory: the result of `encode`.

        Returns:
            A tuple with float32 `(B, H, S)` for each layer. It is empty in architectures other than `Transformer`.
        """
        return ()

    def sinks(self, memory: Memory, output: DecoderOutput) -> dict[str, tuple[Any, ...]]:
        """Returns the weight of each query on the sink, which is 1 minus its weights on keys.

        Args:
            memory: the result of `encode`.
            output: the `DecoderOutput` of whole targets.

        Returns:
            A dict with the sites whose attention has a sink, of `config.choices.inspection.SITES`. Each value is a
            tuple with float32 `(B, H, queries)` for each layer.
        """
        layers = self.attention_layers()
        rows = {"encoder": [memory.self_attention], "decoder": [output.decoder_self], "cross": [output.cross]}
        if layers.get("cross") is layers.get("decoder"):  # one stack attends to source and target
            rows["decoder"] = rows["cross"] = [output.cross, output.decoder_self]

        def sink_weights(*parts):
            return ops.maximum(1.0 - sum(ops.sum(part, axis=-1) for part in parts), 0.0)

        sites = [site for site, site_layers in layers.items() if site_layers[0].mechanism.has_sink]
        return {site: tuple(map(sink_weights, *rows[site])) for site in sites}

    def attention_layers(self) -> dict[str, list[AttentionLayer]]:
        """Returns the attention layers by site.

        Returns:
            A dict with the sites of the architecture among "encoder", "decoder" and "cross". Each value is a list of
            layers, the first layer first. If one stack attends to source and target at once, all sites have the same
            list.
        """
        return {}

    def layer_names(self, side: str) -> dict[keras.Layer, str]:
        """Names the layers whose values hooks can read and replace.

        The name of a value is the name of its layer and its part, see `layers.tap.tap`.

        Args:
            side: "encoder" for `encode`, "decoder" for `decode` without a cache.

        Returns:
            A dict from layers to names, such as `decoder.0.cross`. The name of the model itself is empty. By default
            the dict is empty, so hooks find no values.
        """
        return {}

    def call(self, source_ids: Any, target_ids: Any = None, training: bool | None = None) -> Any:
        source_ids, target_ids = _sides(source_ids, target_ids)
        return self.decode(target_ids, self.encode(source_ids, training=training), training=training).logits

    def generate(
        self,
        source_ids: Any,
        search: Any = "greedy",
        max_length: int | None = None,
        seed: int | None = None,
        n_best: int | None = None,
        return_scores: bool = False,
    ) -> Any:
        """Translates ids: generates targets up to EOS.

        On TensorFlow the first call of a search traces a graph, which takes some seconds. The graph is kept with the
        model, and uses the present weights. On other backends a search computes step by step, which is slower.

        Args:
            source_ids: whole numbers, an array or tensor `(B, S)` with 0 for padding, or a list of lists. Each row ends
                in EOS (3), as in training. A row of padding alone has the target EOS.
            search: "greedy"; "beam", a beam of 5; "sampling", from all tokens; or a search with its settings, such as
                `BeamSearch(BeamSettings(size=4))`, see `decoding.search.Search`.
            max_length: the maximum number of tokens of a target, EOS included; at most `max_positions`. By default
                twice the tokens of its source, and 10 more.
            seed: the seed of the draws of sampling. Equal seeds give equal draws.
            n_best: the number of targets of each source, the best first; None for the best alone.
            return_scores: whether the scores of the search are returned too.

        Returns:
            The target ids without BOS, a NumPy array int32 `(B, T)`, with `n_best` `(B, n_best, T)`. T is the length of
            the longest target. A target ends in EOS unless it was cut at the maximum length; 0 follows. With
            `return_scores` a tuple `(ids, scores)`: the scores are float32 `(B,)` or `(B, n_best)`; for greedy search
            and sampling log-probabilities, and minus infinity for a missing target.

        Raises:
            TypeError: the ids are not whole numbers in two dimensions, or `search` is not a search.
            ValueError: a row does not end in EOS, is too long or has an id outside the vocabulary; an argument does not
                fit the search; or the model gives NaN.
            RuntimeError: the module `decoding.generate` is not imported; `import qkv` and `qkv.Transformer` import it.

        Example:
            >>> from qkv import Transformer
            >>> model = Transformer(20, d_model=8, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
            >>> model.build()
            >>> ids = model.generate([[5, 6, 7, 3], [8, 3]], max_length=4)
            >>> ids.shape[0], ids.dtype
            (2, dtype('int32'))
        """
        if not _generators:
            raise RuntimeError("generate: the searches are not imported yet: import qkv.decoding.generate")
        return _generators[-1](self, source_ids, search, max_length, seed, n_best, return_scores)

    def search_graphs(self, make: Callable[[], Any]) -> Any:
        """Returns the graphs of `generate`, which are freed with the model. At first use, `make` makes the object."""
        if self._search_graphs is None:
            self._search_graphs = make()
        return self._search_graphs

    def compute_output_spec(self, source_ids: Any, target_ids: Any = None, training: bool | None = None) -> Any:
        _, target_ids = _sides(source_ids, target_ids)
        return keras.KerasTensor((*target_ids.shape, self.output_embedding.vocabulary_size), "float32")

    def compute_output_shape(self, source_ids_shape: Any, target_ids_shape: Any = None) -> tuple[int | None, ...]:
        """Returns the shape of the logits, `(B, T, V)`, for the shapes of the call arguments.

        Args:
            source_ids_shape: `(B, S)`, with None for an unknown length. It may be a pair of the shapes of source and
                target, or a dict with the keys "source_ids" and "target_ids".
            target_ids_shape: `(B, T)`; None if `source_ids_shape` holds both.
        """
        _, target_shape = _sides(source_ids_shape, target_ids_shape)
        return (*target_shape, self.output_embedding.vocabulary_size)

    @functools.wraps(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> Any:
        settings = inspect.signature(super().fit).bind(*args, **kwargs).arguments
        check_class_weight(settings.get("class_weight"))
        follow_epochs = getattr(settings.get("x"), "follow_epochs", None)  # of `qkv.batches`
        if follow_epochs is not None:
            settings["callbacks"] = [*keras.tree.flatten(settings.get("callbacks") or []), follow_epochs()]
        return super().fit(**settings)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        settings = inspect.signature(super().train_on_batch).bind(*args, **kwargs).arguments
        check_class_weight(settings.get("class_weight"))
        return super().train_on_batch(**settings)

    def quantize(self, mode: Any = None, config: Any = None, **kwargs: Any) -> None:
        """Raises an error, because Keras cannot quantize the layers of this package.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.quantize: Keras cannot quantize these layers; `qkv export` with --quantization "
            "int8 writes a trained Transformer for CTranslate2"
        )

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",  # noqa: A002 (Keras' name)
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Writes the model for other programs, as `keras.Model.export` does.

        The default signature has the inputs `source_ids` and `target_ids`, int32, for any number of sentences and any
        lengths. The output is the logits. It is named `logits` in ONNX, and in the signature `serving_default` of a
        SavedModel. The SavedModel's function `serve` returns the logits themselves.

        Args:
            filepath: the file or folder to write.
            format: `tf_saved_model`, `onnx`, or another format of `keras.Model.export`.
            verbose: whether to print a message; None for Keras' default.
            input_signature: the inputs as in `keras.Model.export`, or None for the default.
            **kwargs: further arguments of `keras.Model.export`.
        """
        if input_signature is None:
            names = "source_ids", "target_ids"
            input_signature = [keras.InputSpec(dtype="int32", shape=(None, None), name=name) for name in names]
        if format == "tf_saved_model":
            archive = keras.export.ExportArchive()
            archive.track_and_add_endpoint("serve", self, input_signature, **kwargs)
            archive.add_endpoint("serving_default", NamedLogits(self).__call__, input_signature, **kwargs)
            archive.write_out(filepath, verbose=True if verbose is None else verbose)
        elif format == "onnx" and keras.backend.backend() == "tensorflow":
            if missing := [name for name in ("tf2onnx", "onnx") if find_spec(name) is None]:
                raise ImportError(f"export: ONNX needs other packages: pip install {' '.join(missing)}")
            NamedLogits(self).export(filepath, format, verbose, input_signature, **kwargs)
        else:
            super().export(filepath, format, verbose, input_signature, **kwargs)


class NamedLogits(keras.Model):
    """A model that returns `{"logits": logits}`: exported files name their outputs by the keys of a dict.

    Args:
        model: a `TranslationModel`. If a subclass returns several outputs, they are returned unchanged.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__()
        self.model = model
        self.built = model.built

    def call(self, source_ids: Any, target_ids: Any = None) -> Any:
        outputs = self.model(source_ids, target_ids, training=False)
        return outputs if keras.tree.is_nested(outputs) else {"logits": outputs}


def _sides(source_ids: Any, target_ids: Any) -> tuple[Any, Any]:
    """Returns `(source_ids, target_ids)` from the call arguments of a `TranslationModel`."""
    if isinstance(source_ids, Mapping):
        return source_ids["source_ids"], source_ids["target_ids"]
    return source_ids if target_ids is None else (source_ids, target_ids)


def check_class_weight(class_weight: Any) -> None:
    """Raises a `ValueError` unless `class_weight` is None.

    With class weights, Keras gives a whole target sentence one class: the position of its largest id.
    """
    if class_weight is not None:
        raise ValueError(
            "class_weight: Keras has no classes of tokens; expected sample_weight with a weight for each token, as in "
            "sample_weight=weights[target_output], of shape (B, T)"
        )
