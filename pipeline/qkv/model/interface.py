"""The interface of all architectures. Search, inspection and evaluation use only this interface.

- `encode(source_ids, training) -> Memory`
- `decode(target_ids, memory, cache, training) -> DecoderOutput`
- `start_cache(memory) -> cache`, for `decode` step by step
- `encode_and_decode(source_ids, target_ids) = encode(source_ids), decode(target_ids, encode(source_ids))`
- `call(source_ids, target_ids) = decode(target_ids, encode(source_ids)).logits`
- `attention_layers()` and `layer_names(side)`: the layers whose values hooks can read and replace

A packed row holds several sentence pairs, one after the other. Its segments tell the pairs apart, see
`attention.masks`. Models that `takes_segments` can be trained on packed rows; nothing else reads them.

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
    - segments: the source segments of packed rows, int32 `(B, S)`; an empty tuple if each row has one sentence.
    """

    states: Any
    mask: Any
    self_attention: tuple
    prepared: Any = ()
    segments: Any = ()  # not None, which a graph cannot loop over


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
        source_ids: whole numbers of any type, `(B, S)`, 0 for padding. For Keras' `fit` and `predict`, it may hold all
            inputs: a pair `(source_ids, target_ids)`, a tuple of four with the segments of both sides, or a dict with
            the names of the arguments as keys.
        target_ids: whole numbers of any type, `(B, T)`, starting with BOS; None if `source_ids` holds all inputs.
        training: whether dropout is applied.
        source_segments, target_segments: int `(B, S)` and `(B, T)`, the number of the pair in its row that each token
            belongs to, from 1, and 0 for padding; None if each row has one pair. No token attends to another pair, and
            positions restart with each pair. The model must have `takes_segments`.

    Returns:
        Logits, float32 `(B, T, V)`; row t predicts the token after `target_ids[:, t]`.

    Attributes:
        source_embedding, target_embedding: the `TokenEmbedding`s of source and target ids.
        output_embedding: the `TokenEmbedding` that computes logits from states.
        source_loss: the weight of the training loss on source tokens, at least 0. If it is not 0, `Memory.states`
            predict the source tokens.
        max_positions: the maximum number of tokens of a source or a target; None if there is no limit.

    Raises:
        ValueError: in a call, there are segments and the model does not have `takes_segments`; or only one side has
            segments.
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

    def encode_and_decode(
        self,
        source_ids: Any,
        target_ids: Any,
        training: bool | None = None,
        source_segments: Any = None,
        target_segments: Any = None,
    ) -> tuple[Memory, DecoderOutput]:
        """Encodes the source and predicts the token after each target token: a teacher-forced pass.

        Args: as the call arguments of the class.

        Returns:
            The results of `encode` and `decode`.

        Raises:
            ValueError: see the class.
        """
        if source_segments is None and target_segments is None:
            memory = self.encode(source_ids, training=training)
            return memory, self.decode(target_ids, memory, training=training)
        if not self.takes_segments:
            names = sorted({type(mechanism).__name__ for mechanism in self._without_segments()})
            reason = f", because of {', '.join(names)}" if names else ""
            raise ValueError(
                f"{type(self).__name__}: the model cannot read rows of several sentence pairs{reason}; leave out the "
                "segments, with one pair in each row (batches.packed false)"
            )
        encode: Any = self.encode  # an architecture that does not take segments has no argument of this name
        decode: Any = self.decode
        memory = encode(source_ids, training=training, segments=source_segments)
        return memory, decode(target_ids, memory, training=training, segments=target_segments)

    @property
    def takes_segments(self) -> bool:
        """True if the model can be trained on packed rows, whose sentence pairs are told apart by segments.

        Then `encode` has the argument `segments`, the source segments, and `decode` the target segments, and every
        attention can hide the other pairs of a row, see `Mechanism.takes_segments`. An architecture without these
        arguments reads one pair in each row. A subclass of an architecture that has them, and that computes across
        positions in another way than by attention, sets `takes_segments = False`.
        """
        return has_segments(type(self)) and not self._without_segments()

    def _without_segments(self) -> list[Any]:
        """Returns the mechanisms of the attention layers that cannot hide the other pairs of a row."""
        mechanisms = [layer.mechanism for layers in self.attention_layers().values() for layer in layers]
        return [mechanism for mechanism in mechanisms if not mechanism.takes_segments]

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

    def call(
        self,
        source_ids: Any,
        target_ids: Any = None,
        training: bool | None = None,
        source_segments: Any = None,
        target_segments: Any = None,
    ) -> Any:
        source_ids, target_ids, *segments = _inputs(source_ids, target_ids, source_segments, target_segments)
        return self.encode_and_decode(source_ids, target_ids, training, *segments)[1].logits

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
            RuntimeError: the searches are not imported, since the class was imported from its module;
                `qkv.Transformer` imports them.

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

    def compute_output_spec(self, source_ids: Any, target_ids: Any = None, **others: Any) -> Any:
        target_ids = _inputs(source_ids, target_ids)[1]
        return keras.KerasTensor((*target_ids.shape, self.output_embedding.vocabulary_size), "float32")

    def compute_output_shape(
        self, source_ids_shape: Any, target_ids_shape: Any = None, **others: Any
    ) -> tuple[int | None, ...]:
        """Returns the shape of the logits, `(B, T, V)`, for the shapes of the call arguments.

        Args:
            source_ids_shape: `(B, S)`, with None for an unknown length. It may hold the shapes of all inputs, as a
                tuple or a dict, see the class.
            target_ids_shape: `(B, T)`; None if `source_ids_shape` holds all shapes.
            **others: the shapes of the segments, which do not matter.
        """
        target_shape = _inputs(source_ids_shape, target_ids_shape)[1]
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


def _inputs(source_ids: Any, target_ids: Any, source_segments: Any = None, target_segments: Any = None) -> Any:
    """Returns `(source_ids, target_ids, source_segments, target_segments)` from the call arguments of a model.

    Both segments are None if there are none.
    """
    if isinstance(source_ids, Mapping):
        segments = source_ids.get("source_segments"), source_ids.get("target_segments")
        return source_ids["source_ids"], source_ids["target_ids"], *segments
    if target_ids is not None:
        return source_ids, target_ids, source_segments, target_segments
    return tuple(source_ids) if len(source_ids) == 4 else (*source_ids, None, None)


def has_segments(model: type[TranslationModel]) -> bool:
    """Returns True if an architecture's `encode` and `decode` have the argument `segments`, for packed rows.

    False if the class sets `takes_segments = False`.
    """
    methods = model.encode, model.decode
    has_arguments = all("segments" in inspect.signature(method).parameters for method in methods)
    return has_arguments and model.takes_segments is not False


def check_segments(memory: Memory, target_segments: Any) -> None:
    """Raises a `ValueError` if only one of the source, in the memory, and the target has segments."""
    if isinstance(memory.segments, tuple) != (target_segments is None):
        sides = "target" if target_segments is not None else "source"
        raise ValueError(f"segments: expected segments of both source and target, or of neither; found the {sides}'s")


def check_class_weight(class_weight: Any) -> None:
    """Raises a `ValueError` unless `class_weight` is None.

    With class weights, Keras gives a whole target sentence one class: the position of its largest id.
    """
    if class_weight is not None:
        raise ValueError(
            "class_weight: Keras has no classes of tokens; expected sample_weight with a weight for each token, as in "
            "sample_weight=weights[target_output], of shape (B, T)"
        )
