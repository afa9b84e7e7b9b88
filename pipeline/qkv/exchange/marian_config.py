"""The JSON files of a Marian folder: their schemas, and the settings of the run that they describe."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..config.messages import validate
from ..config.schema import MOST_UNITS, OneOf, Probability
from ..errors import InputError
from ..files.json import read_json_object

# Keys of `config.json` that are settings of a run's `model` section with the same name and value.
SAME_NAMED_KEYS = {"d_model", "encoder_layers", "decoder_layers", "dropout", "attention_dropout", "activation_dropout"}
MARIAN_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

# Keys of generation that no search here supports -> their values without effect. A missing key and null have none.
NEUTRAL: dict[str, tuple[Any, ...]] = {
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
}

MOST_VOCABULARY_TOKENS = 1_000_000
MOST_POSITIONS = 16_384  # the table of positions is computed when the model is built
Vocabulary = Annotated[int, Field(ge=4, le=MOST_VOCABULARY_TOKENS)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Heads = Annotated[int, Field(ge=1, le=1024)]
Hidden = Annotated[int, Field(ge=1, le=MOST_UNITS)]
Token = Annotated[int, Field(ge=0, le=MOST_VOCABULARY_TOKENS)]


class _File(BaseModel):
    """The schema of a JSON file. Keys without a field are ignored. The value null stands for the default."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=())


Checked = TypeVar("Checked", bound=_File)


class ModelFile(_File):
    """The schema of `config.json`. The first six keys have one allowed value: other values mean other architectures."""

    model_type: Literal["marian"]
    is_encoder_decoder: Literal[True] = True
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    static_position_embeddings: Literal[True] = True
    vocab_size: Vocabulary
    decoder_vocab_size: Vocabulary | None = None
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    d_model: int = Field(ge=2, le=MOST_UNITS)
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_attention_heads: Heads
    decoder_attention_heads: Heads
    encoder_ffn_dim: Hidden
    decoder_ffn_dim: Hidden
    activation_function: Annotated[str, OneOf(MARIAN_ACTIVATIONS)]
    max_position_embeddings: int = Field(ge=2, le=MOST_POSITIONS)
    scale_embedding: bool = False
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0


class GenerationFile(_File):
    """The schema of `generation_config.json`. In older folders its keys are in `config.json`."""

    pad_token_id: Token
    eos_token_id: Token
    decoder_start_token_id: Token
    forced_eos_token_id: Token | None = None
    num_beams: int = Field(default=1, ge=1, le=1000)
    early_stopping: bool = False
    length_penalty: float = Field(default=1.0, ge=0, le=5)
    renormalize_logits: bool = False
    no_repeat_ngram_size: int = Field(default=0, ge=0, le=1000)
    min_length: int = Field(default=0, ge=0, le=MOST_VOCABULARY_TOKENS)
    max_length: Annotated[int, Field(ge=2, le=MOST_VOCABULARY_TOKENS)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=MOST_VOCABULARY_TOKENS)] | None = None
    bad_words_ids: tuple[int, ...] = ()

    @field_validator("bad_words_ids", mode="before")
    @classmethod
    def _join_ids(cls, words: Any) -> tuple[int, ...]:
        """Converts `bad_words_ids` from a list of lists, each with one id, to a tuple of ids.

        Raises:
            ValueError: the value has another form.
        """
        if not isinstance(words, list) or any(type(word) is not list or [*map(type, word)] != [int] for word in words):
            raise ValueError(f"expected a list of lists with one id each, found {words!r:.60}")
        return tuple(word[0] for word in words)


@dataclass(frozen=True)
class MarianConfig:
    """The settings of a Marian model. All ids are ids of the Marian model, not of the run.

    Args:
        model: the settings of a run's section `model`.
        decoding: the settings of a run's section `decoding`. With them the run searches like the Marian model's method
            `generate`.
        source_size: the number of rows of the source embedding.
        target_size: the number of rows of the target embedding.
        pad: the id of padding.
        start: the id of the first input token of the decoder.
        eos: the id of the end of a sentence.
        banned: the ids that are never predicted. `pad` is never predicted either, and is not among them.
        tokenizer: the content of `tokenizer_config.json`; empty if there is no such file.
    """

    model: Mapping[str, Any]
    decoding: Mapping[str, Any]
    source_size: int
    target_size: int
    pad: int
    start: int
    eos: int
    banned: tuple[int, ...]
    tokenizer: Mapping[str, Any]

    @property
    def has_start_piece(self) -> bool:
        """True if the first input token of the decoder is neither PAD nor EOS. In most Marian models it is PAD."""
        return self.start not in (self.pad, self.eos)


def read_marian_config(folder: Path) -> MarianConfig:
    """Reads and checks `config.json`, `generation_config.json` and `tokenizer_config.json`.

    Only `config.json` must exist.

    Args:
        folder: the Marian folder.

    Raises:
        InputError: `config.json` is missing, a file is damaged, or a setting is not supported.
    """
    path = folder / "config.json"
    values = read_marian_file(path)
    model = _checked(ModelFile, values, path)
    for key in ("attention_heads", "ffn_dim"):
        encoder, decoder = values[f"encoder_{key}"], values[f"decoder_{key}"]
        if encoder != decoder:
            raise _unsupported(path, f"decoder_{key}", f"{encoder}, as encoder_{key}", decoder)
    shared = model.share_encoder_decoder_embeddings
    target_size = model.vocab_size if shared else model.decoder_vocab_size or model.vocab_size
    if (folder / "generation_config.json").exists():
        path = folder / "generation_config.json"
        values = {**values, **read_marian_file(path)}
    generation = _checked(GenerationFile, values, path)
    _check_generation(generation, values, path, min(model.vocab_size, target_size))
    tokenizer = folder / "tokenizer_config.json"
    return MarianConfig(
        model={
            **model.model_dump(include=SAME_NAMED_KEYS),
            "num_heads": model.encoder_attention_heads,
            "d_ff": model.encoder_ffn_dim,
            "norm": "post",
            "positions": "sinusoidal_halves",
            "activation": MARIAN_ACTIVATIONS[model.activation_function],
            "tie_embeddings": "none" if not model.tie_word_embeddings else "all" if shared else "target",
            "scale_embeddings": model.scale_embedding,
            "output_bias": True,
            "max_positions": model.max_position_embeddings,
        },
        decoding=_decoding(generation, path, model.max_position_embeddings),
        source_size=model.vocab_size,
        target_size=target_size,
        pad=generation.pad_token_id,
        start=generation.decoder_start_token_id,
        eos=generation.eos_token_id,
        banned=tuple(sorted({*generation.bad_words_ids} - {generation.pad_token_id})),
        tokenizer=read_marian_file(tokenizer) if tokenizer.exists() else {},
    )


def read_marian_file(path: Path) -> dict[str, Any]:
    """Reads a JSON file that holds an object.

    Returns:
        The values by key. For a key that ends in `_token_id`, a list with one id becomes this id.

    Raises:
        InputError: the file cannot be read, or is not a JSON object.
    """
    try:
        values = read_json_object(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be read: {reason}; expected the file that save_pretrained wrote") from None
    lists = {key for key, value in values.items() if key.endswith("_token_id") and isinstance(value, list)}
    return values | {key: values[key][0] for key in lists if len(values[key]) == 1}


def _checked(schema: type[Checked], values: Mapping[str, Any], path: Path) -> Checked:
    """Checks values against a schema, and returns them as an instance of the schema. Null stands for the default.

    Raises:
        InputError: a value does not fit the schema. The message names the file `path`.
    """
    present = {key: value for key, value in values.items() if value is not None}
    return validate(schema, present, dict.fromkeys(schema.model_fields, str(path)))


def _unsupported(path: Path, key: str, expected: str, found: Any) -> InputError:
    """Returns the error about a value that an import does not support."""
    return InputError(f"{path}: {key}: expected {expected}, found {found!r:.60}; this model cannot be imported")


def _check_generation(generation: GenerationFile, values: Mapping[str, Any], path: Path, size: int) -> None:
    """Checks the values of `generation_config.json` that the schema cannot check.

    Ids must be in the vocabulary and must not contradict each other. Settings that no search here supports must be off.

    Args:
        generation: the values in the schema.
        values: all values of the file.
        path: the file, for messages.
        size: the size of the smaller vocabulary of source and target. Ids must be below it.

    Raises:
        InputError: a value is not supported.
    """
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if values[key] >= size:
            raise _unsupported(path, key, f"an id below {size}", values[key])
    if generation.pad_token_id == generation.eos_token_id:
        raise _unsupported(path, "pad_token_id", "another id than eos_token_id", generation.pad_token_id)
    if generation.forced_eos_token_id not in (None, generation.eos_token_id):
        raise _unsupported(path, "forced_eos_token_id", "eos_token_id or null", generation.forced_eos_token_id)
    for key, neutral in NEUTRAL.items():
        if values.get(key) not in (None, *neutral):
            raise _unsupported(path, key, "no value, because no search here supports it", values[key])
    if unknown_ids := [token for token in generation.bad_words_ids if not 0 <= token < size]:
        raise _unsupported(path, "bad_words_ids", f"ids from 0 to {size - 1}", unknown_ids[0])


def _decoding(generation: GenerationFile, path: Path, positions: int) -> dict[str, Any]:
    """Returns the settings of a run's section `decoding`.

    Lengths in Marian count the start token, lengths in a run do not.

    Args:
        generation: the values of `generation_config.json`.
        path: the file, for messages.
        positions: the maximum number of positions of the model.

    Raises:
        InputError: `min_length` is above the maximum length.
    """
    new_tokens = generation.max_new_tokens
    longest = min(positions, new_tokens + 1 if new_tokens else generation.max_length or positions)
    if generation.min_length > longest:
        raise _unsupported(path, "min_length", f"at most the longest length, {longest}", generation.min_length)
    return {
        "beam_size": generation.num_beams,
        "length_penalty": generation.length_penalty,
        "length_divisor": "power",
        "beam_end": "full" if generation.early_stopping else "worst",
        "renormalize": generation.renormalize_logits,
        "force_eos": generation.forced_eos_token_id is not None,
        "min_length": max(generation.min_length - 1, 0),
        "no_repeat_ngram": generation.no_repeat_ngram_size,
        "max_target_ratio": 0.0,
        "max_target_extra": longest - 1,
    }
