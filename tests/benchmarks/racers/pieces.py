"""SentencePiece pieces of both languages together, for the racers on PyTorch."""

from pathlib import Path

import sentencepiece

from tests.benchmarks.racers.run import read_lines

PAD, UNK, BOS, EOS = 0, 1, 2, 3


def train_pieces(text: Path, model: Path, vocabulary: int, kind: str = "bpe") -> sentencepiece.SentencePieceProcessor:
    """Learns pieces of both sides of the training text and writes them to `model`, such as `pieces.model`."""
    sentencepiece.SentencePieceTrainer.train(
        input=[str(text / "train.en"), str(text / "train.de")],
        model_prefix=str(model.with_suffix("")),
        vocab_size=vocabulary,
        model_type=kind,
        character_coverage=1.0,
        normalization_rule_name="identity",  # references are compared as they are
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(model))


def encode_pairs(pieces: sentencepiece.SentencePieceProcessor, text: Path) -> list[tuple[list[int], list[int]]]:
    """Returns the training pairs as ids, each side with its EOS."""
    sides = (pieces.encode(read_lines(text / f"train.{side}"), add_eos=True) for side in ("en", "de"))
    return list(zip(*sides, strict=True))
