"""Generates the demo corpus: English-French sentence pairs with gold word alignments. `python data/demo/prepare.py`."""

import argparse
import sys
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]  # Python adds only the folder of the script

from data.demo.measures import make_table
from data.demo.phrase import SentencePair
from data.demo.sampling import Sampler
from data.demo.sentences import random_pair
from data.fetch import prepared_alone
from qkv.commands.cli import exit_cleanly
from qkv.files.atomic import write_output
from qkv.files.paths import check_folder_to_write

SEED = 1
SIZES = {"train": 20_000, "validation": 500, "test": 500}
MOST_WORDS = 20
CANDIDATES = 3


def draw_distinct_pairs(seed: int, count: int) -> list[SentencePair]:
    """Draws random pairs of which no two share an English or a French sentence, not even with another last mark.
    So no held-out sentence is in the training text.

    Of every three candidates, the one with the rarest word is taken: a small corpus cannot teach a long tail.
    """
    draw = Sampler(seed)
    pairs: list[SentencePair] = []
    seen: set[tuple[str, ...]] = set()
    word_counts: Counter[str] = Counter()
    while len(pairs) < count:
        candidates = [random_pair(draw) for _ in range(CANDIDATES)]
        pair = min(candidates, key=lambda pair: min(word_counts[word] for word in pair.source + pair.target))
        sentences = {pair.source[:-1], pair.target[:-1]}
        if max(len(pair.source), len(pair.target)) > MOST_WORDS or sentences & seen:
            continue
        seen |= sentences
        word_counts.update(pair.source + pair.target)
        pairs.append(pair)
    return pairs


def generate_splits(seed: int = SEED) -> dict[str, list[SentencePair]]:
    """Generates the corpus by split; held-out pairs are spread evenly over all pairs."""
    pairs = draw_distinct_pairs(seed, sum(SIZES.values()))
    step = len(pairs) // SIZES["test"]
    validation, test = pairs[0::step], pairs[1::step]
    train = [pair for index, pair in enumerate(pairs) if index % step > 1]
    return {"train": train, "validation": validation, "test": test}


def format_files(splits: dict[str, list[SentencePair]]) -> dict[str, str]:
    """The text of every file by its name; each line is a sentence, or the links of one."""
    contents: dict[str, str] = {}
    for name, pairs in splits.items():
        lines = {
            "en": [" ".join(pair.source) for pair in pairs],
            "fr": [" ".join(pair.target) for pair in pairs],
            "align": [pair.alignment for pair in pairs],
        }
        contents |= {f"{name}.{ending}": "\n".join(text) + "\n" for ending, text in lines.items()}
    return contents


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description="Generate the demo corpus: English-French sentence pairs with gold word alignments."
    )
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the random sentences (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent, help="folder to write to (default: that of this script)"
    )
    options = parser.parse_args(arguments)

    check_folder_to_write(options.output)
    splits = generate_splits(options.seed)
    contents = format_files(splits)
    with prepared_alone(options.output, contents):
        for name, text in contents.items():
            write_output(options.output / name, text.encode())

    print(make_table(splits))
    megabytes = sum(len(text.encode()) for text in contents.values()) / 1e6
    print(f"\n{len(contents)} files, {megabytes:.1f} MB, in {options.output}")


if __name__ == "__main__":
    sys.exit(main())
