"""What the racers on PyTorch share: SentencePiece pieces of both languages, and batches of sentences of like length."""

import random
from collections.abc import Iterator
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


def token_batches(pairs: list[tuple[list[int], list[int]]], tokens: int, seed: int) -> Iterator[list[int]]:
    """Yields numbers of pairs in batches, epoch after epoch without end.

    Args:
        pairs: source and target ids.
        tokens: of the longer side that a batch may have, padding included.
        seed: of the order.
    """
    rng = random.Random(seed)
    while True:
        order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0]), rng.random()))
        batches: list[list[int]] = [[]]
        longest = 0
        for i in order:
            longest = max(longest, *map(len, pairs[i]))
            if batches[-1] and longest * (len(batches[-1]) + 1) > tokens:
                batches.append([])
                longest = max(map(len, pairs[i]))
            batches[-1].append(i)
        rng.shuffle(batches)
        yield from batches
