"""The JSON files of a Marian folder: what `config.json`, `generation_config.json` and `tokenizer_config.json` say, each
value checked when it is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.json import read_json_object

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}


FIXED = {  # a model that says otherwise computes something else
    "model_type": "marian",
    "is_encoder_decoder": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}


NEUTRAL: dict[str, tuple[Any, ...]] = {  # of generation: what changes nothing
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "forced_bos_token_id": (),
    "suppress_tokens": ((), []),
    "begin_suppress_tokens": ((), []),
    "sequence_bias": (),
    "penalty_alpha": (),
    "guidance_scale": (1,),
    "remove_invalid_values": (False, True),
}


LARGEST = 65_536
MOST_TOKENS = 1_000_000
MOST_POSITIONS = 16_384  # their table is made before anything is translated


@dataclass(frozen=True)
class MarianConfig:
    """A Marian model: sizes, ids of its own numbering, and how it translates."""

    width: int
    heads: int
    hidden: int
    encoder_layers: int
    decoder_layers: int
    activation: str
    positions: int
    scale: bool
    tie: str
    source_size: int
    target_size: int
    pad: int
    start: int
    eos: int
    dropout: tuple[float, float, float]
    decoding: Mapping[str, Any]
    banned: tuple[int, ...]
    tokenizer: Mapping[str, Any]

    @property
    def has_start_piece(self) -> bool:
        """Whether translations start with a piece of their own; Marian's own models start with padding's vector."""
        return self.start not in (self.pad, self.eos)


def read_marian_config(folder: Path) -> MarianConfig:
    """Reads and checks the three files; only the first must be there.

    Raises:
        InputError: one is missing, damaged, or asks for what has no counterpart.
    """
    model = Values(folder / "config.json")
    for key, expected in FIXED.items():
        if model.given.get(key, expected) != expected or (key == "model_type" and key not in model.given):
            raise model.refused(key, repr(expected))
    shared, tied = model.switch("share_encoder_decoder_embeddings", True), model.switch("tie_word_embeddings", True)
    source_size = model.number("vocab_size", 4, MOST_TOKENS)
    target_size = source_size
    if not shared and model.given.get("decoder_vocab_size") is not None:
        target_size = model.number("decoder_vocab_size", 4, MOST_TOKENS)
    path = folder / "generation_config.json"
    generation = Values(path, model.given) if path.exists() else model
    tokenizer = folder / "tokenizer_config.json"
    last = min(source_size, target_size) - 1
    ids = {key: generation.number(f"{key}_token_id", 0, last) for key in ("pad", "eos", "decoder_start")}
    if ids["pad"] == ids["eos"]:
        raise generation.refused("pad_token_id", "another id than eos_token_id")
    positions = model.number("max_position_embeddings", 2, MOST_POSITIONS)
    dropout = [model.share(key) for key in ("dropout", "attention_dropout", "activation_dropout")]
    return MarianConfig(
        width=model.number("d_model", 2, LARGEST),
        heads=model.equal("encoder_attention_heads", "decoder_attention_heads", 1024),
        hidden=model.equal("encoder_ffn_dim", "decoder_ffn_dim", LARGEST),
        encoder_layers=model.number("encoder_layers", 1, 1000),
        decoder_layers=model.number("decoder_layers", 1, 1000),
        activation=model.choice("activation_function", ACTIVATIONS),
        positions=positions,
        scale=model.switch("scale_embedding", False),
        tie="none" if not tied else "all" if shared else "target",
        source_size=source_size,
        target_size=target_size,
        pad=ids["pad"],
        start=ids["decoder_start"],
        eos=ids["eos"],
        dropout=(dropout[0], dropout[1], dropout[2]),
        decoding=_decoding(generation, ids["eos"], positions),
        banned=_banned(generation, ids["pad"], last),
        tokenizer=Values(tokenizer).given if tokenizer.exists() else {},
    )


class Values:
    """The values of a file of JSON, with those of another where it has none.

    Args:
        path: the file.
        otherwise: the values of the other.

    Raises:
        InputError: the file cannot be read; and of every method, a value is not what it must be.
    """

    def __init__(self, path: Path, otherwise: Mapping[str, Any] | None = None) -> None:
        self.path = path
        try:
            own = read_json_object(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"{path}: cannot be read: {reason}; expected the file that save_pretrained wrote"
            ) from None
        self.given = {**(otherwise or {}), **own}

    def refused(self, key: str, expected: str) -> InputError:
        """Returns the error that names a key, what was expected and what was found."""
        found = repr(self.given[key])[:60] if key in self.given else "nothing"
        return InputError(f"{self.path}: {key}: expected {expected}, found {found}; this model cannot be imported")

    def number(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """Returns an integer of a range; a list of one is that one."""
        value = self.given.get(key)
        value = default if value is None else value
        if isinstance(value, list) and len(value) == 1:  # eos_token_id may be a list
            value = value[0]
        if not is_number(value, least, most):
            raise self.refused(key, f"an integer from {least} to {most}")
        return int(value)  # type: ignore[arg-type]

    def equal(self, key: str, other: str, most: int) -> int:
        """Returns an integer that two keys must agree on."""
        if self.given.get(other) != self.given.get(key):
            raise self.refused(other, f"as {key}, {self.given.get(key)!r:.60}")
        return self.number(key, 1, most)

    def switch(self, key: str, default: bool) -> bool:
        """Returns true or false."""
        value = self.given.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.refused(key, "true or false")
        return value

    def share(self, key: str) -> float:
        """Returns a number from 0 to below 1; 0 if it is not given."""
        value = self.given.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise self.refused(key, "a number from 0 to below 1")
        return float(value)

    def choice(self, key: str, names: Mapping[str, str]) -> str:
        """Returns our name for one of theirs."""
        value = self.given.get(key)
        if not isinstance(value, str) or value not in names:
            raise self.refused(key, f"one of {', '.join(names)}")
        return names[value]


def _decoding(generation: Values, eos: int, positions: int) -> dict[str, Any]:
    """Returns the settings of `decoding` that search as `generate` does."""
    for key, values in NEUTRAL.items():
        if generation.given.get(key) not in (None, *values):
            raise generation.refused(key, "no such setting, since no search here has it")
    if generation.given.get("early_stopping", False) not in (False, True, None):
        raise generation.refused("early_stopping", "true or false")
    forced = generation.given.get("forced_eos_token_id")
    if forced not in (None, eos, [eos]):
        raise generation.refused("forced_eos_token_id", "eos_token_id or null")
    longest = positions
    if generation.given.get("max_length") is not None:
        longest = min(longest, generation.number("max_length", 2, MOST_TOKENS))
    if generation.given.get("max_new_tokens") is not None:
        longest = min(positions, generation.number("max_new_tokens", 1, MOST_TOKENS) + 1)
    least = generation.number("min_length", 0, longest, 0)
    penalty = generation.given.get("length_penalty")
    penalty = 1.0 if penalty is None else penalty
    if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty <= 5:
        raise generation.refused("length_penalty", "a number from 0 to 5")
    return {
        "beam_size": generation.number("num_beams", 1, 1000, 1),
        "length_penalty": float(penalty),
        "length_divisor": "power",
        "beam_end": "full" if generation.given.get("early_stopping") else "worst",
        "renormalize": generation.switch("renormalize_logits", False),
        "force_eos": forced is not None,
        "min_length": max(least - 1, 0),  # there the start counts
        "no_repeat_ngram": generation.number("no_repeat_ngram_size", 0, 1000, 0),
        "max_target_ratio": 0.0,
        "max_target_extra": longest - 1,
    }


def _banned(generation: Values, pad: int, last: int) -> tuple[int, ...]:
    """Returns the ids but PAD that are never predicted."""
    words = generation.given.get("bad_words_ids")
    words = [] if words is None else words
    fine = isinstance(words, list) and all(
        isinstance(word, list) and len(word) == 1 and is_number(word[0], 0, last) for word in words
    )
    if not fine:
        raise generation.refused("bad_words_ids", "a list of lists with one id each")
    return tuple(sorted({word[0] for word in words} - {pad}))


def is_number(value: Any, least: int, most: int) -> bool:
    """Returns whether a value of JSON is an integer of a range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
