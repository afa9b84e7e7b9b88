"""The interface of all architectures, so that search, inspection and evaluation need not know which one it is.

`encode(source_ids, training) -> Memory`
`decode(target_ids, memory, cache, training) -> DecoderOutput`
`start_cache(memory) -> cache`, for `decode` step by step
`call(source_ids, target_ids) = decode(target_ids, encode(source_ids)).logits`
`attention_layers()` and `layer_names(side)`, the layers whose values can be read and replaced on the way

Attention that an architecture lacks, such as self-attention in a recurrent model, is an empty tuple of layers.

Letters: B batch, H heads, T target positions, S source positions, D model width, V vocabulary.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from ..attention.multi_head import AttentionLayer
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once
from ..layers.keras_layers import dynamic_shape, rows_of_each
from ..layers.low_rank import LowRank


class Memory(NamedTuple):
    """The encoder's result, as the decoder takes it.

    - states: `(B, S, D)`.
    - mask: bool `(B, 1, 1, S)`, the real tokens.
    - self_attention: the weights of the encoder, a tuple over layers of float32 `(B, H, S, S)`.
    - prepared: data that only the architecture itself reads, such as keys, which do not depend on the target.
    """

    states: Any
    mask: Any
    self_attention: tuple
    prepared: Any = ()


class DecoderOutput(NamedTuple):
    """The decoder's output at each target position. Row t is computed from input token t to predict output token t.

    - states: `(B, T, D)`, before the output projection.
    - logits: float32 `(B, T, V)`.
    - cross: tuple over layers of float32 `(B, H, T, S)`; rows sum to one, except in architectures that attend to source
      and target at once, where it is the source's part.
    - decoder_self: tuple over layers of float32 `(B, H, T, T)`, or `(B, H, T, L + T)` with a cache of L positions.
    - cache: what the next step needs, or None.

    A graph never computes outputs that are not used: training uses no logits, search no attention.
    """

    states: Any
    logits: Any
    cross: tuple
    decoder_self: tuple
    cache: Any


def rows_for_each(nested, rows):
    """Repeats the rows of tensors so that there are `rows`: `(B, ...) -> (B * N, ...)`; copies are adjacent.

    Args:
        nested: any nested structure of tensors; scalars are left as they are.
        rows: B * N.
    """

    def repeat(x):
        shape = dynamic_shape(x)
        if not shape:
            return x
        each = rows_of_each(rows, shape[0])
        copies = ops.broadcast_to(ops.expand_dims(x, 1), (shape[0], each, *shape[1:]))
        return ops.reshape(copies, (rows, *shape[1:]))

    return keras.tree.map_structure(repeat, nested)


class TranslationModel(ConstructorConfig, ReplaceableLayers, LowRank, keras.Model):
    """Translates ids to ids; architectures implement `encode`, `decode` and `start_cache`.

    Call arguments:
        source_ids: whole numbers of any type, `(B, S)`, 0 for padding; or the ids of both sides, as a pair or by the
            names of these arguments in a dict, for Keras' `fit` and `predict`.
        target_ids: the same, `(B, T)`, starting with BOS.

    Returns:
        Logits, float32 `(B, T, V)`; row t predicts the token after `target_ids[:, t]`.

    Attributes:
        output_embedding: the `TokenEmbedding` that turns states into logits.
        source_loss: weight of the training loss on source tokens, which `Memory.states` then predict.
    """

    output_embedding: Any
    source_loss = 0.0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.autocast = False  # or Keras would round ids of type float to half precision

    def encode(self, source_ids, training=None) -> Memory:
        """Reads the source: int `(B, S) -> Memory`."""
        raise NotImplementedError

    def decode(self, target_ids, memory, cache=None, training=None) -> DecoderOutput:
        """Predicts the token after each target token.

        Args:
            target_ids: int `(B, T)`: whole targets from BOS on, or with a cache the next tokens only. Padding may
                follow a target, since no real token attends to it.
            memory: what `encode` returned.
            cache: what `start_cache` or the step before returned, or None for whole targets. With a cache there may be
                N targets for each row of the memory, in adjacent rows: the hypotheses of a search. `start_cache` makes
                a cache for one target each; `rows_for_each` repeats its rows.
            training: whether dropout is applied.
        """
        raise NotImplementedError

    def build_embeddings(self):
        """Creates the tables of ids, once each, however many sides share them."""
        for embedding in (self.target_embedding, self.source_embedding, self.output_embedding):
            build_once(embedding, (None, None))

    def start_cache(self, memory):
        """Makes the cache for the first step: any nested structure of tensors, which have a row for each target or are
        scalars. It may grow with every step."""
        raise NotImplementedError

    def value_norms(self, memory) -> tuple:
        """Returns the length of the vector that each source position adds in each head of the cross-attention: a tuple
        over layers of float32 `(B, H, S)`; empty if heads do not project values."""
        return ()

    def sinks(self, memory, output) -> dict[str, tuple]:
        """Returns the share of each row that went to no key, for each of `config.choices.inspection.SITES` with a sink:
        tuples over layers of float32 `(B, H, queries)`.

        Args:
            memory: what `encode` returned.
            output: the `DecoderOutput` of whole targets.
        """
        layers = self.attention_layers()
        rows = {"encoder": [memory.self_attention], "decoder": [output.decoder_self], "cross": [output.cross]}
        if layers.get("cross") is layers.get("decoder"):  # which divide their rows between source and target
            rows["decoder"] = rows["cross"] = [output.cross, output.decoder_self]

        def rest(*parts):
            return ops.maximum(1.0 - sum(ops.sum(part, axis=-1) for part in parts), 0.0)

        return {site: tuple(map(rest, *rows[site])) for site, own in layers.items() if own[0].mechanism.has_sink}

    def attention_layers(self) -> dict[str, list[AttentionLayer]]:
        """Returns the attention layers of each of the sites encoder, decoder and cross that the architecture has, from
        the first layer on. One stack that attends to source and target at once is the same list at each."""
        return {}

    def layer_names(self, side: str) -> dict[keras.Layer, str]:
        """Names the layers whose values can be read and replaced, such as `decoder.0.cross`, and the model itself by an
        empty name; a value's name is its layer's name and its part, see `tap`. An architecture that names none has
        none.

        Args:
            side: "encoder" for `encode`, "decoder" for `decode` without a cache.
        """
        return {}

    def call(self, source_ids, target_ids=None, training=None):
        source_ids, target_ids = _sides(source_ids, target_ids)
        return self.decode(target_ids, self.encode(source_ids, training=training), training=training).logits

    def compute_output_spec(self, source_ids, target_ids=None, training=None):
        _, target_ids = _sides(source_ids, target_ids)
        return keras.KerasTensor((*target_ids.shape, self.output_embedding.vocabulary_size), "float32")

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        settings = inspect.signature(super().fit).bind(*args, **kwargs).arguments
        check_class_weight(settings.get("class_weight"))
        follow_epochs = getattr(settings.get("x"), "follow_epochs", None)  # of `qkv.batches`
        if follow_epochs is not None:
            settings["callbacks"] = [*keras.tree.flatten(settings.get("callbacks") or []), follow_epochs()]
        return super().fit(**settings)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, *args, **kwargs):
        settings = inspect.signature(super().train_on_batch).bind(*args, **kwargs).arguments
        check_class_weight(settings.get("class_weight"))
        return super().train_on_batch(**settings)

    def quantize(self, mode=None, config=None, **kwargs):
        """Raises an error: Keras has no quantization of the layers here.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.quantize: Keras cannot quantize these layers; `qkv export` with --quantization "
            "int8 writes a trained Transformer for CTranslate2"
        )

    def export(self, filepath, *args, input_signature=None, **kwargs):
        """Writes the model for other programs, as `keras.Model.export` does; by default for any number of sentences and
        any lengths, with the inputs `source_ids` and `target_ids`, int32, and the logits as the output."""
        if input_signature is None:
            names = "source_ids", "target_ids"
            input_signature = [keras.InputSpec(dtype="int32", shape=(None, None), name=name) for name in names]
        super().export(filepath, *args, input_signature=input_signature, **kwargs)


def _sides(source_ids, target_ids):
    """Returns the ids of both sides, which are given alone, as a pair or by name."""
    if isinstance(source_ids, Mapping):
        return source_ids["source_ids"], source_ids["target_ids"]
    return source_ids if target_ids is None else (source_ids, target_ids)


def check_class_weight(class_weight):
    """Raises a `ValueError` unless `class_weight` is None: Keras would take the largest id's position in a target for
    the class of the whole sentence."""
    if class_weight is not None:
        raise ValueError(
            "class_weight: Keras has no classes of tokens; expected sample_weight with a weight for each token, as in "
            "sample_weight=weights[target_output], of shape (B, T)"
        )
