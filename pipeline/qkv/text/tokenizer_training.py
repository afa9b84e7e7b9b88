"""Trains the SentencePiece model that `tokenizer` applies."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from ..errors import InputError
from ..files.atomic import write_atomically
from .tokenizer import BOS, EOS, PAD, UNK


def train_tokenizer(
    sentences: Iterable[str],
    path: Path,
    *,
    kind: str,
    vocabulary_size: int,
    character_coverage: float,
    tags: Sequence[str] = (),
) -> None:
    """Trains a subword model on sentences of both languages and writes it to `path`.

    Text is used as it is, with accents and case and without Unicode normalisation; only runs of spaces become one.

    Args:
        sentences: the training text.
        path: where the model is written.
        kind: "bpe" (Sennrich et al. 2016) or "unigram" (Kudo 2018).
        vocabulary_size: number of tokens, the four special ones included.
        character_coverage: share of the text's characters that get a token.
        tags: further special tokens, which no text is cut into.

    Raises:
        InputError: the text has too little variety for that many tokens, or too many characters for so few.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=kind,
            vocab_size=vocabulary_size,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=list(tags),
            max_sentence_length=1 << 20,  # bytes; longer lines would be skipped silently
            num_threads=1,  # with several threads, floating-point sums would depend on how the work is divided
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        reason = str(error).rsplit("] ", 1)[-1]
        raise InputError(
            f"tokenizer.vocabulary_size: {vocabulary_size} does not fit the training text: {reason}"
        ) from None
    write_atomically(path, model.getvalue())
