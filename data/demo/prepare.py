"""Generates the demo corpus: English-French sentence pairs with gold word alignments. `python data/demo/prepare.py`."""

import argparse
import sys
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]  # Python adds only the folder of the script

from data.demo import clauses
from data.demo.joined_sentences import reason_of_thing
from data.demo.measures import make_table
from data.demo.phrase import SentencePair, realise
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
PRONOUNS = 60


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


def draw_pronouns(seed: int, splits: dict[str, list[SentencePair]]) -> list[tuple[str, ...]]:
    """Draws sentences of no split whose "it" stands for one thing, half of them feminine in French: source, target, the
    pronoun, its noun, and the right and the wrong French pronoun."""
    draw = Sampler(seed)
    seen = {pair.source[:-1] for pairs in splits.values() for pair in pairs}
    rows: dict[str, list[tuple[str, ...]]] = {"m": [], "f": []}
    while min(map(len, rows.values())) < PRONOUNS // 2:
        phrase, thing = reason_of_thing(draw)
        pair = realise(clauses.sentence(phrase, "."))
        noun = thing.phrase.source[-1].text
        right, wrong = ("il", "elle") if thing.gender == "m" else ("elle", "il")
        once = all(words.count(word) == 1 for words, word in ((pair.source, noun), (pair.target, right)))
        found = rows[thing.gender]
        if not thing.plural and once and pair.source[:-1] not in seen and len(found) < PRONOUNS // 2:
            seen.add(pair.source[:-1])
            found.append((" ".join(pair.source), " ".join(pair.target), "it", noun, right, wrong))
    return [row for pairs in zip(rows["m"], rows["f"], strict=True) for row in pairs]


def format_files(splits: dict[str, list[SentencePair]], pronouns: list[tuple[str, ...]]) -> dict[str, str]:
    """The text of every file by its name; each line is a sentence, or the links of one."""
    header = ("source", "target", "pronoun", "noun", "right", "wrong")
    contents = {"pronouns.tsv": "".join("\t".join(row) + "\n" for row in (header, *pronouns))}
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
    contents = format_files(splits, draw_pronouns(options.seed + 1, splits))
    with prepared_alone(options.output, contents):
        for name, text in contents.items():
            write_output(options.output / name, text.encode())

    print(make_table(splits))
    megabytes = sum(len(text.encode()) for text in contents.values()) / 1e6
    print(f"\n{len(contents)} files, {megabytes:.1f} MB, in {options.output}")


if __name__ == "__main__":
    sys.exit(main())
