"""Measures how well text with placeholders is translated: `python -m tests.benchmarks.placeholders RUN PAIRS`.

In each pair, a name or a number that stands once on each side becomes `{0}` on both. The text is translated with
`markup="placeholders"`, and compared with the reference: chrF, and the share of translations that have `{0}` once. It
is done with stand-ins of each kind, and without any, so that the model does not read the placeholder. The upper limit
is the translation of the text with the name or number in it.
"""

import argparse
import random
import re
from pathlib import Path

from sacrebleu.metrics import CHRF

import qkv
from qkv.markup import translation

NAME = re.compile(r"(?<!\w)(\d+|[A-Z][a-z]+)(?!\w)")
KINDS = {"persons": 0, "places": 1, "numbers": 2}


def whole(word):
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")


def draw_pairs(path, most, seed):
    """`(source, reference, word)` by group: numbers, the most frequent name, other names."""
    rows = [line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines()]
    pairs = [
        (source, reference, found[0])
        for source, reference, *_ in rows
        for found in NAME.finditer(source)
        if all(len(whole(found[0]).findall(side)) == 1 for side in (source, reference))
    ]
    names = [word for *_, word in pairs if not word.isdigit()]
    first = max(set(names), key=names.count, default="")
    groups = {"numbers": [], first: [], "other names": []}
    for pair in pairs:
        groups["numbers" if pair[2].isdigit() else first if pair[2] == first else "other names"].append(pair)
    generator = random.Random(seed)
    return {name: generator.sample(group, min(most, len(group))) for name, group in groups.items() if group}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("pairs", help="a table of pairs that the run was not trained on: source, tab, reference")
    parser.add_argument("--most", type=int, default=200, help="pairs of each group")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run = qkv.load(options.run)
    stand_ins = translation.STAND_INS
    choices = {"left out": [], "persons": [0], "numbers": [2], "persons, numbers": [0, 2], "all three": [0, 1, 2]}
    for group, pairs in draw_pairs(options.pairs, options.most, options.seed).items():
        references = [whole(word).sub("{0}", reference) for _, reference, word in pairs]
        sources = [whole(word).sub("{0}", source) for source, _, word in pairs]
        present = run.translate([source for source, _, _ in pairs])
        limit = [whole(word).sub("{0}", str(text)) for text, (*_, word) in zip(present, pairs, strict=True)]
        print(f"{group}, {len(pairs)} pairs")
        rows = {"the text with the word": limit}
        for name, kinds in choices.items():
            translation.STAND_INS = [stand_ins[kind] for kind in kinds]
            rows[name] = [str(text) for text in run.translate(sources, markup="placeholders")]
        for name, texts in rows.items():
            once = sum(text.count("{0}") == 1 for text in texts) / len(texts)
            print(f"  {name:24} chrF {CHRF().corpus_score(texts, [references]).score:5.1f}  once {100 * once:5.1f} %")


if __name__ == "__main__":
    main()
