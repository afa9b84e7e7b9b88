"""A run's tokenizer and its normalisation of typed text as a page holds them, for `subword.js` and `typed_text.js`."""

from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from ..errors import InputError
from ..run.trained_run import TrainedRun
from ..text.lines import europarl_words, moses
from ..text.tokens.special_tokens import BOS, EOS, PAD

KINDS = {TrainerSpec.UNIGRAM: "unigram", TrainerSpec.BPE: "bpe"}
NORMAL, UNKNOWN, CONTROL = (ModelProto.SentencePiece.Type.Value(name) for name in ("NORMAL", "UNKNOWN", "CONTROL"))
PAGE = "a page with the model inside"


def pack_tokenizer(run: TrainedRun) -> dict[str, Any]:
    """Returns the pieces, their scores, and what kind of model it is.

    Raises:
        InputError: the tokenizer is of another kind, or does something with text that the page does not.
    """
    if run.config.tokenizer.kind == "given":
        raise InputError(f"{run.directory.root}: an imported run, whose tokenizer has no counterpart in {PAGE}")
    if run.tokenizer.tag is not None:
        raise InputError(
            f"{run.directory.root}: decoding.tag is {run.tokenizer.tag!r}, which has no counterpart in {PAGE}; "
            "expected null"
        )
    model = ModelProto.FromString(run.tokenizer.model)
    kinds = [piece.type for piece in model.pieces]
    unknown = [token for token, kind in enumerate(kinds) if kind == UNKNOWN]
    plain = (
        model.trainer_spec.model_type in KINDS
        and len(unknown) == 1
        and set(kinds) <= {NORMAL, UNKNOWN, CONTROL}
        and not model.trainer_spec.treat_whitespace_as_suffix
        and not model.normalizer_spec.precompiled_charsmap  # the table of a normalisation; "identity" has none
        and model.normalizer_spec.add_dummy_prefix
        and model.normalizer_spec.remove_extra_whitespaces
        and model.normalizer_spec.escape_whitespaces
    )
    if not plain:
        raise InputError(
            f"{run.directory.tokenizer}: this SentencePiece model has no counterpart in {PAGE}; expected one that "
            "training has made: bpe or unigram, without normalisation, byte pieces and own symbols"
        )
    return {
        "kind": KINDS[model.trainer_spec.model_type],
        "pieces": run.tokenizer.pieces(range(run.tokenizer.vocabulary_size)),
        "scores": run.tokenizer.scores,
        "reserved": [token for token, kind in enumerate(kinds) if kind != NORMAL],
        "unknown": unknown[0],
        "special": [PAD, BOS, EOS],
    }


def pack_normalizer(run: TrainedRun) -> dict[str, Any] | None:
    """Returns what `data.normalize` does to typed text, for `typed_text.js`; None where it does nothing."""
    settings, look, language = run.config.data.normalize, run.source_look, run.config.data.source_language
    if settings is None or look is None:
        return None
    divided = settings.moses or settings.europarl
    return {
        "lowercase": settings.lowercase,
        "capitals": look.capitals,
        "capitalised": sorted(look.capitalised),
        "marked": sorted(look.marked) if divided else [],
        "moses": moses.rules(language, escaped=look.escaped) if settings.moses else None,
        "europarl": europarl_words.rules(language) if settings.europarl else None,
    }
