"""A Marian model's weights in ours."""

from collections.abc import Iterator

import keras
import numpy as np

from ..model.embedding import sinusoidal_positions
from ..text.tokens.special_tokens import BOS
from .marian_config import MarianConfig
from .marian_vocabulary import NONE, MarianVocabulary
from .marian_weights import MarianWeights

NEVER = -30.0  # a bias: probabilities times `exp` of it vanish in a float32 sum
POSITIONS_APART = 5e-3  # half-precision files round positions


def read_arrays(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> dict[str, np.ndarray]:
    """Reads all weights: the name of each of our variables, without the model's, with its value.

    It is called before a model is built, so that the memory of sizes which the files do not have is never taken.

    Raises:
        InputError: an array is missing, of another shape, not finite, or has no place in the model.
    """
    arrays = dict(_arrays(weights, config, vocabulary))
    _check_positions(weights, config)
    weights.check_all_read()
    return arrays


def assign_arrays(model: keras.Model, arrays: dict[str, np.ndarray]) -> None:
    """Gives a model all that `read_arrays` has read."""
    variables = {variable.path.split("/", 1)[1]: variable for variable in model.trainable_variables}
    assert variables.keys() == arrays.keys()
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _arrays(
    weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary
) -> Iterator[tuple[str, np.ndarray]]:
    yield from _embeddings(weights, config, vocabulary)
    output = "output" if config.tie == "none" else "target"
    yield f"{output}_embedding/bias", _output_bias(weights, config, vocabulary)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            theirs, ours = f"model.{side}.layers.{number}", f"{side}_{number}"
            yield from _self_attention(weights, f"{theirs}.self_attn", f"{ours}/self_attention", config.width)
            yield from _norm(weights, f"{theirs}.self_attn_layer_norm", f"{ours}/self_attention", config.width)
            if side == "decoder":
                cross = f"{ours}/cross_attention"
                for name, own in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
                    place = f"{theirs}.encoder_attn.{name}_proj"
                    yield from _dense(weights, place, f"{cross}/{own}", config.width, config.width)
                yield from _norm(weights, f"{theirs}.encoder_attn_layer_norm", cross, config.width)
            yield from _dense(weights, f"{theirs}.fc1", f"{ours}/feed_forward/inner", config.width, config.hidden)
            yield from _dense(weights, f"{theirs}.fc2", f"{ours}/feed_forward/outer", config.hidden, config.width)
            yield from _norm(weights, f"{theirs}.final_layer_norm", f"{ours}/feed_forward", config.width)


def _embeddings(
    weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary
) -> Iterator[tuple[str, np.ndarray]]:
    shared, output = "model.shared.weight", "lm_head.weight"
    source, target = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    written = {"target": [target, output], "source": [source]}
    if config.tie == "all":
        written = {"target": [shared, source, target, output]}
    elif config.tie == "none":
        written = {"target": [target], "source": [source], "output": [output]}
        if source in weights and target in weights:
            weights.ignore(shared)  # transformers 5 writes it, and does not read it
    for table, names in written.items():
        size = config.source_size if table == "source" else config.target_size
        present = [name for name in names if name in weights] or [shared]
        rows = [weights.read(name, size, config.width) for name in present]
        if any(not np.array_equal(rows[0], others) for others in rows[1:]):
            raise weights.refused(f"{' and '.join(present)} differ, and config.json says that they are one table")
        numbers = vocabulary.source if table == "source" else vocabulary.target
        yield f"{table}_embedding/table", np.where(numbers[:, None] == NONE, np.float32(0), rows[0][numbers])


def _output_bias(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> np.ndarray:
    given = np.zeros(config.target_size, "float32")
    if "final_logits_bias" in weights:
        given = weights.read("final_logits_bias", 1, config.target_size)[0]
    given[[i for i in config.banned if i != config.start]] += NEVER  # searches never find BOS anyway
    bias = np.where(vocabulary.target == NONE, np.float32(NEVER), given[vocabulary.target])
    if not config.has_start_piece:
        bias[BOS] = given[config.start] + NEVER
    return bias


def _self_attention(weights: MarianWeights, theirs: str, ours: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
    parts = [dict(_dense(weights, f"{theirs}.{name}_proj", name, width, width)) for name in "qkv"]
    for kind in ("kernel", "bias"):
        arrays = [part[f"{name}/{kind}"] for name, part in zip("qkv", parts, strict=True)]
        yield f"{ours}/qkv/{kind}", np.concatenate(arrays, axis=-1)
    yield from _dense(weights, f"{theirs}.out_proj", f"{ours}/output", width, width)


def _dense(
    weights: MarianWeights, theirs: str, ours: str, inputs: int, outputs: int
) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{ours}/kernel", weights.read(f"{theirs}.weight", outputs, inputs).T
    yield f"{ours}/bias", weights.read(f"{theirs}.bias", outputs)


def _norm(weights: MarianWeights, theirs: str, ours: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{ours}_residual/norm/gamma", weights.read(f"{theirs}.weight", width)
    yield f"{ours}_residual/norm/beta", weights.read(f"{theirs}.bias", width)


def _check_positions(weights: MarianWeights, config: MarianConfig) -> None:
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name in weights:
            expected = sinusoidal_positions(config.positions, config.width, halves=True)
            found = weights.read(name, config.positions, config.width)
            if not np.allclose(found, expected, atol=POSITIONS_APART):
                raise weights.refused(f"{name} are other positions than Marian's sines and cosines")
