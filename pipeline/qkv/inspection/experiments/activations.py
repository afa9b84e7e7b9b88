"""Reading and patching activations: the values that the layers of a model compute, by name.

Each architecture names its layers itself, see `TranslationModel.layer_names`; docs/learn/inside.md lists all names.
Names may be globs, such as `decoder.*.cross.scores`. A value that a loop computes for one position at a time is
collected over the loop: its positions are the rows of one array, on the last axis but one.

Sentences are given as ids to `read_activations` and `patch_activations`, and as text to `cache_sentences` and
`patch_sentence`.

Letters: B batch, H heads, T queries, S keys, V value size of a head, D width of the output.
"""

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from ...attention.multi_head import AttentionLayer
from ...decoding.translator import Translator
from ...errors import InputError, did_you_mean
from ...layers.tap import Hook, tapped
from ...model.interface import TranslationModel
from ...runtime.import_tensorflow import refuse_after_fork
from ...text.tokens.special_tokens import BOS, EOS

SentenceOrPair = str | tuple[str, str]
"""A source, whose translation is searched and then read; or a source and the target that is read."""

Pair = tuple[Sequence[int], Sequence[int]]
"""The ids of a source up to EOS, and of its target from BOS on; both without padding."""


class Inside(NamedTuple):
    """The values that a model computes while it reads a sentence pair.

    Letters: S source tokens, T target tokens, N vocabulary size.

    - source_tokens: the S source tokens, EOS at the end.
    - target_input_tokens: the T tokens that the decoder reads, BOS at the beginning. Row t of every array of the
      decoder is computed from token t.
    - target_output_tokens: the T tokens that the decoder predicts.
    - log_probabilities: the log-probabilities of `target_output_tokens` in nats, `(T,)`.
    - logits: `(T, N)`.
    - arrays: the activations by name, see docs/learn/inside.md.
    """

    source_tokens: list[str]
    target_input_tokens: list[str]
    target_output_tokens: list[str]
    log_probabilities: np.ndarray
    logits: np.ndarray
    arrays: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        """Returns one line: the numbers of tokens and of arrays, the arrays' size, and the log-probability."""
        size = sum(array.nbytes for array in self.arrays.values()) / 1e6
        return (
            f"<Inside: {len(self.source_tokens)} source tokens, {len(self.target_output_tokens)} target tokens; "
            f"{len(self.arrays)} arrays of {size:.1f} MB; log-probability {self.log_probabilities.sum():.3f}>"
        )


def cache_sentences(translator: Translator, sentences: Any, names: Any = ("*",)) -> Any:
    """Reads sentences and returns the activations of each.

    Args:
        translator: the translator of the model that reads.
        sentences: a `SentenceOrPair`, or an iterable of them. A tuple of two texts is a pair, a list of them is two
            sources.
        names: a name or glob of activations, such as `decoder.0.cross.scores` or `*.residual`, or an iterable of them.

    Returns:
        An `Inside`, or a list with one for each element of the iterable.

    Raises:
        InputError: `sentences` or `names` has another type, a sentence has several lines, a NUL character or a lone
            surrogate, the architecture names no layers, a name or glob matches no activation (such as the scores of a
            mechanism that does not score each pair), or the process was forked after TensorFlow had computed.
    """
    is_single = isinstance(sentences, str) or (isinstance(sentences, tuple) and _is_text_pair(sentences))
    is_table = isinstance(sentences, Mapping) or hasattr(sentences, "columns")
    if is_table or not isinstance(sentences, Iterable) or isinstance(sentences, bytes):
        raise InputError(f"sentences: expected a sentence, a pair, or a list of them, found {sentences!r:.60}")
    names = _list_names(names)
    results = []
    for sentence in [sentences] if is_single else sentences:
        pair, predicted = read_ids(translator, sentence)
        arrays, logits = read_activations(translator.model, pair, names)
        results.append(_describe_pass(translator, pair, predicted, logits, arrays))
    return results[0] if is_single else results


def patch_sentence(translator: Translator, clean: Any, corrupted: Any, names: Any) -> Inside:
    """Reads the corrupted sentence with some activations of the clean sentence (activation patching).

    Args:
        translator: the translator of the model that reads.
        clean: the `SentenceOrPair` that supplies the activations.
        corrupted: the `SentenceOrPair` that is read. A side whose activations are replaced must have as many tokens as
            in `clean`.
        names: a name or glob of activations, or an iterable of them.

    Returns:
        The values of the patched pass, without arrays.

    Raises:
        InputError: as for `cache_sentences`, or an activation has another shape in the corrupted sentence.
    """
    names = _list_names(names)
    clean_pair, _ = read_ids(translator, clean)
    pair, predicted = read_ids(translator, corrupted)
    logits = patch_activations(translator.model, clean_pair, pair, names)
    return _describe_pass(translator, pair, predicted, logits, {})


def read_ids(translator: Translator, sentence: Any) -> tuple[Pair, list[int]]:
    """Returns the ids of a sentence and its translation, cut to the positions of the model.

    Args:
        translator: the translator, which searches the translation of a source alone.
        sentence: a `SentenceOrPair`.

    Returns:
        `(pair, predicted)`: the ids that the model reads, and the ids that it predicts, up to EOS.

    Raises:
        InputError: the sentence is neither text nor a pair of texts, it has several lines, a NUL character or a lone
            surrogate, or the process was forked after TensorFlow had computed.
    """
    if not (isinstance(sentence, str) or _is_text_pair(sentence)):
        raise InputError(f"sentence: expected text, or a pair (source, target) of texts, found {sentence!r:.60}")
    refuse_after_fork()
    if isinstance(sentence, str):
        translation = translator.translate([sentence])[0]
        source = list(translation.source_ids)
        target = list(translation.ids)
    else:
        source = translator.encode([sentence[0]])[0][: translator.max_positions - 1]
        target = [*translator.encode([sentence[1]], "target")[0], EOS][: translator.max_positions]
    return ([*source, EOS], [BOS, *target[:-1]]), target


def _describe_pass(
    translator: Translator, pair: Pair, predicted: Sequence[int], logits: np.ndarray, arrays: Mapping[str, np.ndarray]
) -> Inside:
    """Returns the values of a pass together with its tokens as text.

    Args:
        translator: the translator, whose tokenizers spell the tokens.
        pair: the ids that the model read.
        predicted: the id that each row predicts.
        logits: the logits, `(T, vocabulary)`.
        arrays: the activations by name.
    """
    largest = logits.max(axis=-1, keepdims=True)
    log_probabilities = logits - largest - np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
    pieces = translator.tokenizer.pieces
    return Inside(
        pieces(pair[0]),
        pieces(pair[1]),
        pieces(predicted),
        log_probabilities[np.arange(len(predicted)), predicted],
        logits,
        arrays,
    )


def _is_text_pair(value: Any) -> bool:
    """Returns whether a value is a tuple or list of two texts."""
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _list_names(names: Any) -> list[str]:
    """Lists names or globs of activations. Raises an `InputError` unless `names` is a text or an iterable of texts."""
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    if not all(isinstance(name, str) for name in listed):
        raise InputError(f"names: expected names such as 'decoder.0.cross.scores', found {names!r:.60}")
    return listed


def read_activations(
    model: TranslationModel, pair: Pair, names: Sequence[str] = ("*",)
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Reads one sentence pair in a teacher-forced pass without dropout and returns activations.

    Args:
        model: a model of any architecture with `layer_names`.
        pair: the sentence pair.
        names: the names or globs of the activations to return.

    Returns:
        `(arrays, logits)`: the activations by name, without the batch axis, and the logits `(T, vocabulary)`.

    Raises:
        InputError: the architecture names no layers, or a name or glob matches no activation.
    """
    rows: dict[str, list[np.ndarray]] = {}

    def collect(name, value):
        rows.setdefault(name, []).append(ops.convert_to_numpy(value)[0])
        return value

    logits = _read_pair(model, pair, collect)
    arrays = {name: np.concatenate(parts, axis=-2) for name, parts in rows.items()}
    matching = _match_names(names, list(arrays))
    return {name: array for name, array in arrays.items() if name in matching}, logits


def patch_activations(model: TranslationModel, clean: Pair, corrupted: Pair, names: Sequence[str]) -> np.ndarray:
    """Reads the corrupted pair with some activations of the clean pair (activation patching).

    If both pairs are the same, the logits are those of the unpatched pass, bit for bit.

    Args:
        model: a model of any architecture with `layer_names`.
        clean: the sentence pair that supplies the activations.
        corrupted: the sentence pair that is read.
        names: the names or globs of the activations.

    Returns:
        The logits of the corrupted pair, `(T, vocabulary)`.

    Raises:
        InputError: the architecture names no layers, a name or glob matches no activation, or an activation has
            another shape in the corrupted pair.
    """
    return put_activations(model, corrupted, read_activations(model, clean, names)[0])


def put_activations(model: TranslationModel, pair: Pair, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Computes the logits of a pair with some activations replaced by given arrays. All others are computed as usual.

    Args:
        model: a model of any architecture with `layer_names`.
        pair: the sentence pair.
        arrays: the replacements by name, as `read_activations` returns them.

    Returns:
        The logits of the pair, `(T, vocabulary)`.

    Raises:
        InputError: the architecture names no layers, or an activation has another shape in this pair.
    """
    rows_used: Counter[str] = Counter()
    names_of_other_shape = set()

    def put(name, value):
        if name not in arrays:
            return value
        first = rows_used[name]
        rows_used[name] += value.shape[-2]
        replacement = arrays[name][..., first : rows_used[name], :]
        if replacement.shape == tuple(value.shape[1:]):
            return ops.convert_to_tensor(replacement[None])
        names_of_other_shape.add(name)  # raised below: TensorFlow complains of loops that an error ends
        return value

    logits = _read_pair(model, pair, put)
    for name, array in arrays.items():
        # Rows are left over or missing if the other sentence has more or fewer tokens.
        if name in names_of_other_shape or rows_used[name] != array.shape[-2]:
            raise InputError(
                f"{name}: the clean and the corrupted sentence must have the same number of tokens; the value of the "
                f"clean one has the shape {array.shape}. Choose replacement words with the same number of tokens"
            )
    return logits


def check_index(name: str, index: int, size: int) -> None:
    """Raises an `InputError`, whose message begins with `name`, unless `index` is from 0 to `size - 1`."""
    if not isinstance(index, Integral) or isinstance(index, bool) or not 0 <= index < size:
        raise InputError(f"{name}: expected a number from 0 to {size - 1}, found {index!r:.60}")


def _match_names(names: Sequence[str], known: list[str]) -> set[str]:
    """Returns the names in `known` that match `names` (names or globs); raises an `InputError` if one matches none."""
    matching = set()
    for name in names:
        matches = set(fnmatch.filter(known, name))
        if not matches:
            hint = did_you_mean(name, known)
            if name.endswith("scores") and fnmatch.filter(known, name.removesuffix("scores") + "weights"):
                hint = ": the mechanism there does not score each pair"
            raise InputError(f"{name:.60}: expected a name or glob of a value inside the model, found none{hint}")
        matching |= matches
    return matching


NamedHook = Callable[[str, Any], Any]
"""A function of the name of an activation and its value `(1, ..., T, size)`; returns the value to continue with."""


def _read_pair(model: TranslationModel, pair: Pair, named_hook: NamedHook) -> np.ndarray:
    """Reads a pair with a hook on all activations; returns the logits `(T, vocabulary)`."""
    source = np.array([pair[0]], "int32")
    target = np.array([pair[1]], "int32")
    with tapped(_make_hook(model, "encoder", named_hook)):
        memory = model.encode(source, training=False)
    with tapped(_make_hook(model, "decoder", named_hook)):
        output = model.decode(target, memory, training=False)
    return ops.convert_to_numpy(output.logits)[0]


def _make_hook(model: TranslationModel, side: str, named_hook: NamedHook) -> Hook:
    """Makes the hook that calls `named_hook` with every activation of a side, `encoder` or `decoder`.

    Raises:
        InputError: the architecture names no layers.
    """
    names = model.layer_names(side)
    if not names:
        raise InputError(f"{type(model).__name__} does not name what is inside it: it needs a method `layer_names`")
    names |= {layer.mechanism: name for layer, name in names.items() if isinstance(layer, AttentionLayer)}

    def hook(layer, part, value, **inputs):
        if layer not in names or part == "heads":
            return value
        if part in ("scores", "weights"):
            columns = _split_keys(names[layer], value).items()
            return ops.concatenate([named_hook(f"{site}.{part}", value[..., keys]) for site, keys in columns], axis=-1)
        if isinstance(layer, AttentionLayer) and part == "output":
            value = _hook_heads(layer, names[layer], value, named_hook, **inputs)
        name = f"{names[layer]}.{part}".removeprefix(".")
        if len(value.shape) > 2:
            return named_hook(name, value)
        return named_hook(name, ops.expand_dims(value, 1))[:, 0]  # of one step of a loop

    return hook


def _split_keys(name: str, weights: Any) -> dict[str, slice]:
    """Divides the keys of an attention layer among the names of its sites.

    A decoder-only model attends to source and target in one self-attention layer, which then has more keys than
    queries. Its first keys are the source's and get the name of cross-attention.

    Args:
        name: the name of the layer, such as `decoder.0.self`.
        weights: its weights or scores, `(..., T, S)`.

    Returns:
        The keys of each site, by the site's name.
    """
    queries, keys = weights.shape[-2:]
    if not name.endswith(".self") or keys == queries:
        return {name: slice(0, keys)}
    return {name.removesuffix("self") + "cross": slice(0, keys - queries), name: slice(keys - queries, keys)}


def _hook_heads(layer: AttentionLayer, name: str, output: Any, named_hook: NamedHook, weights: Any, values: Any) -> Any:
    """Calls `named_hook` with the summand of each head, and returns the layer's output with the new summands.

    Args:
        layer: the attention layer.
        name: the name of the layer, such as `decoder.0.cross`.
        output: the output of the layer, `(B, T, D)`.
        named_hook: the hook, which returns the new summand of a head.
        weights: the attention weights, `(B, H, T, S)`.
        values: the value vectors, `(B, H, S, V)`.
    """
    weights = ops.cast(weights, values.dtype)
    for site, keys in _split_keys(name, weights).items():
        summands = head_summands(layer, ops.matmul(weights[..., keys], values[:, :, keys]))
        hooked = [named_hook(f"{site}.head.{head}", summands[:, head]) for head in range(layer.num_heads)]
        output = output + ops.sum(ops.stack(hooked, axis=1) - summands, axis=1)  # exact zeros if nothing is replaced
    return output


def head_summands(layer: AttentionLayer, context: Any) -> Any:
    """Computes the summand of the layer's output that comes from each head.

    The output is the sum over the heads plus the bias of the output projection.

    Args:
        layer: the attention layer.
        context: the contexts of the heads, `(B, H, T, V)`.

    Returns:
        `(B, H, T, D)`.
    """
    shape = (layer.num_heads, layer.value_dim, layer.output_dim)
    projection = layer.output_projection
    kernel = ops.eye(shape[0] * shape[1]) if projection is None else projection.kernel
    return ops.einsum("bhtv,hvd->bhtd", context, ops.reshape(kernel, shape))
