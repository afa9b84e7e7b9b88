"""Measures where tags land: spans of source words, placed by links of a run, of eflomal and of one head.

    python -m tests.benchmarks.markup runs/demo
    python -m tests.benchmarks.markup RUN --set choice --eflomal /path/to/eflomal-align
    python -m tests.benchmarks.markup RUN --source A.en --reference A.fr --alignments A.align --eflomal ...
        [--source_words A.tok.en --target_words A.tok.fr] [--training_text CONFIG] [--reverse RUN] [--pool]
        [--seeds 3]

Spans of 1 to 5 neighbouring source words are drawn, of any position and length, five for each pair and seed. The model
reads the reference. The right place of a span is the smallest range of target words that covers its gold links, sure or
possible; it is empty if there are none. F1 is over target words, summed over all spans; `exact` is the share of spans
placed exactly. Intervals are from a bootstrap over pairs; a difference is paired. Probabilities that are calibrated on
the pairs themselves (`--set choice`) are cross-fitted. The first row is what markup takes: the mean of the
probabilities by attention and by the statistics of the training text. If the run has no statistics yet, they are learnt
and saved in it.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qkv.alignment.aligned_text import AlignedText
from qkv.alignment.gold import read_choice_set, read_configured_gold
from qkv.alignment.link_probabilities import FOLDS, calibrate
from qkv.alignment.linking import Direction
from qkv.alignment.links import grow_diag, grow_diag_final_and
from qkv.alignment.readout import AlignmentReadout
from qkv.alignment.readout_selection import find_readout, guided_readout, last_layer_readout
from qkv.config import load_run_config
from qkv.markup.projection import LinkedText, known_statistics, link_matrix, project_spans
from qkv.run.trained_run import TrainedRun, load_run
from qkv.statistics.resampling import ratio, ratio_interval
from qkv.statistics.significance import difference_interval
from qkv.text.corpora.formats import read_corpus
from qkv.text.corpora.word_links import GoldAlignment, read_pharaoh

SPANS = 5  # a pair and seed
LONGEST = 5  # source words of a span
TAGS = 3  # at once on a line, in the last table

Range = tuple[int, int]
Rule = Callable[[np.ndarray, Range], Range]
Systems = dict[str, tuple[list[np.ndarray], Rule]]
"""The probabilities of links of each pair, and the rule that places spans by them."""


@dataclass
class Pairs:
    """Sentence pairs with gold links, and the words that the links count."""

    source: Sequence[str]
    target: Sequence[str]
    words: tuple[Sequence[str], Sequence[str]]
    gold: Sequence[GoldAlignment]
    calibrates: bool  # whether the run's probabilities are calibrated on these pairs


def read_pairs(run: TrainedRun, options: argparse.Namespace) -> Pairs:
    """Reads a set of the run's config, or the files of the options."""
    if options.source is None:
        if options.set == "choice":
            gold_set = read_choice_set(run.config, run.reader.segmenter)
        else:
            gold_set = read_configured_gold(run.config.data.test, "test", run.reader.segmenter)
        if gold_set is None:
            raise SystemExit("the run's config names no gold alignments; expected --source, --reference, --alignments")
        texts = list(gold_set.corpus.source), list(gold_set.corpus.target)
        return Pairs(*texts, texts, gold_set.gold, options.set == "choice")
    texts = tuple(path.read_text(encoding="utf-8").splitlines() for path in (options.source, options.reference))
    words = tuple(
        path.read_text(encoding="utf-8").splitlines() if path else text
        for path, text in zip((options.source_words, options.target_words), texts, strict=True)
    )
    return Pairs(*texts, words, read_pharaoh(options.alignments), False)


def records_of(run: TrainedRun, pairs: Pairs, readout: AlignmentReadout, turned: bool = False) -> list:
    """Returns the records of the pairs; of a run of the opposite direction if `turned`."""
    direction = Direction(run, AlignedText([], []), readout, reverse=turned, normalizes=True)
    return list(direction.with_text(AlignedText(pairs.source, pairs.target, pairs.words)).records())


def run_matrices(
    run: TrainedRun, pairs: Pairs, turned: bool = False, calibrated: bool = True
) -> tuple[list[np.ndarray], str]:
    """Returns the run's probabilities of links, from source to target also if `turned`; and a word on the readout."""
    readout = find_readout(run, None) or last_layer_readout(run)
    if not calibrated:  # as if the config named no gold alignments
        readout = replace(guided_readout(run) or last_layer_readout(run), calibration=None)
    records = records_of(run, pairs, readout, turned)
    readouts = [readout] * len(records)
    if pairs.calibrates and readout.calibration:
        gold = [alignment.turned if turned else alignment for alignment in pairs.gold]
        for fold in range(FOLDS):
            chosen = [index for index in range(len(records)) if index % FOLDS != fold]
            fitted = calibrate([[records[i]] for i in chosen], [gold[i] for i in chosen], [readout.layer], "a fold")
            for index in range(fold, len(records), FOLDS):
                readouts[index] = replace(readout, calibration=fitted)
    words = zip(*pairs.words[::-1] if turned else pairs.words, strict=True)
    matrices = [
        link_matrix(own, record, source.split(), target.split())
        for own, record, (source, target) in zip(readouts, records, words, strict=True)
    ]
    name = (
        f"layer {readout.layer}, {'calibrated' if readout.calibration else f'head {readout.head}, {readout.side} side'}"
    )
    return [matrix.T for matrix in matrices] if turned else matrices, name


def first_head_matrices(run: TrainedRun, pairs: Pairs) -> list[np.ndarray]:
    """Returns a link from each target word to the source word that the last layer's first head attends to most."""
    readout = replace(last_layer_readout(run), head=0)
    links = [readout.links(record) for record in records_of(run, pairs, readout)]
    return [fill(pairs, index, found) for index, found in enumerate(links)]


def fill(pairs: Pairs, index: int, links: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns links as a matrix of ones and zeros, `(target words, source words)`."""
    source, target = (len(side[index].split()) for side in pairs.words)
    matrix = np.zeros((target, source))
    for i, j in links:
        if i < source and j < target:  # some published sets have links out of range
            matrix[j, i] = 1.0
    return matrix


def eflomal_matrices(program: str, config: Path, pairs: Pairs) -> dict[str, list[np.ndarray]]:
    """Trains eflomal on the training text of a config and on the pairs; returns its links of the pairs."""
    corpus = read_corpus(load_run_config(config).data.training_corpora[0])
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("source", "target", "forward", "backward")]
        for path, train, lines in zip(paths, (corpus.source, corpus.target), pairs.words, strict=False):
            Path(path).write_text("".join(f"{line}\n" for line in (*train, *lines)), encoding="utf-8")
        command = [program, "-s", paths[0], "-t", paths[1], "-f", paths[2], "-r", paths[3], "--overwrite"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        first = len(corpus)
        forward, backward = ([gold.sure for gold in read_pharaoh(path)[first:]] for path in paths[2:])
    directions = list(zip(forward, backward, strict=True))
    combined = {"grow-diag": grow_diag, "grow-diag-final-and": grow_diag_final_and}
    matrices = {
        name: [fill(pairs, index, combine(*both)) for index, both in enumerate(directions)]
        for name, combine in combined.items()
    }
    matrices["mean of both directions"] = [
        (fill(pairs, index, one) + fill(pairs, index, other)) / 2 for index, (one, other) in enumerate(directions)
    ]
    return matrices


def covering(matrix: np.ndarray, span: Range, threshold: float = 0.5) -> Range:
    """Returns the smallest range of target words that covers all links of a span above a threshold."""
    words = np.flatnonzero((matrix[:, slice(*span)] > threshold).any(axis=1))
    return (int(words[0]), int(words[-1]) + 1) if len(words) else (0, 0)


def place(matrix: np.ndarray, spans: Sequence[Range], parents: Sequence[int | None] | None = None) -> list[Range]:
    """Returns the places of spans of words by `project_spans`; a word is a character here, with one between words."""
    target, source = matrix.shape
    sides = ([(2 * index, 2 * index + 1) for index in range(count)] for count in (source, target))
    characters = project_spans([(2 * a, 2 * b - 1) for a, b in spans], LinkedText(*sides, matrix), parents)
    return [(a // 2, (b + 1) // 2) if a < b else (0, 0) for a, b in characters]


def our_rule(matrix: np.ndarray, span: Range) -> Range:
    """Returns the place of a single span."""
    return place(matrix, [span])[0]


def drawn_spans(pairs: Pairs, seeds: int) -> list[list[Range]]:
    """Returns the spans of each pair, of all seeds."""
    spans: list[list[Range]] = [[] for _ in pairs.gold]
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        for own, line in zip(spans, pairs.words[0], strict=True):
            words = len(line.split())
            for _ in range(SPANS if words else 0):
                length = min(int(generator.integers(1, LONGEST + 1)), words)
                first = int(generator.integers(0, words - length + 1))
                own.append((first, first + length))
    return spans


Terms = tuple[np.ndarray, np.ndarray]
"""What each pair adds above and below in F1, and in the share of exact places: two arrays `(N, 2)`."""


def score(places: Sequence[Sequence[Range]], right: Sequence[Sequence[Range]]) -> Terms:
    """Returns the terms of the places of spans, by pair, against the right places."""
    above, below = np.zeros((len(places), 2)), np.zeros((len(places), 2))
    for index, own in enumerate(zip(places, right, strict=True)):
        for (a, b), (first, last) in zip(*own, strict=True):
            above[index] += 2 * max(0, min(b, last) - max(a, first)), (a, b) == (first, last)
            below[index] += (b - a) + (last - first), 1
    return above, below


def percent(terms: Terms) -> str:
    """Returns F1 and the share of exact places with their intervals."""
    (f1, exact), (low, high) = ratio(*terms), ratio_interval(*terms)
    return " | ".join(
        f"{100 * value:.1f} ({100 * a:.1f} to {100 * b:.1f})"
        for value, a, b in zip((f1, exact), low, high, strict=True)
    )


def difference(first: Terms, second: Terms) -> str:
    """Returns F1 and exact places of the first minus those of the second, with paired intervals."""
    values, (low, high) = ratio(*first) - ratio(*second), difference_interval(second, first)
    return " | ".join(
        f"{100 * value:+.1f} ({100 * a:+.1f} to {100 * b:+.1f})" for value, a, b in zip(values, low, high, strict=True)
    )


def measure(pairs: Pairs, systems: Systems, seeds: int) -> None:
    """Prints the table of all systems, the first minus each other one, and how our rule places the gold links."""
    spans = drawn_spans(pairs, seeds)
    gold = [fill(pairs, index, alignment.possible) for index, alignment in enumerate(pairs.gold)]

    def places(matrices: list[np.ndarray], rule: Rule) -> list[list[Range]]:
        return [[rule(matrix, span) for span in own] for matrix, own in zip(matrices, spans, strict=True)]

    right, ours_on_gold = places(gold, covering), places(gold, our_rule)
    drawn = sum(map(len, spans))
    same = sum(a == b for own in zip(right, ours_on_gold, strict=True) for a, b in zip(*own, strict=True))
    empty = sum(place == (0, 0) for own in right for place in own)
    print(f"\n{len(spans)} pairs, {drawn} spans, {empty} of them without a gold link")
    print(f"our rule gives the right place for the gold links of {same} spans\n")
    print("| links, rule | F1 | exact |\n|---|---|---|")
    terms = {}
    for name, (matrices, rule) in systems.items():
        terms[name] = score(places(matrices, rule), right)
        print(f"| {name} | {percent(terms[name])} |")
    ours, *others = systems
    for name in others:
        print(f"| the first minus {name} | {difference(terms[ours], terms[name])} |")


def measure_several(pairs: Pairs, matrices: list[np.ndarray], seeds: int) -> None:
    """Prints how much is lost if several tags on a line, nested or apart, are placed together."""
    together, alone, right = [], [], []
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        for index, matrix in enumerate(matrices):
            spans = drawn_tags(generator, matrix.shape[1])
            together.append(place(matrix, spans))
            alone.append([our_rule(matrix, span) for span in spans])
            right.append([covering(fill(pairs, index, pairs.gold[index].possible), span) for span in spans])
    print(f"\n{TAGS} tags on each line at once, nested or apart, by the links of the first row\n")
    print("| placed | F1 | exact |\n|---|---|---|")
    for name, places in (("together, never crossing", together), ("each alone, perhaps crossing", alone)):
        by_pair = [np.add.reduce(np.split(part, seeds)) for part in score(places, right)]
        print(f"| {name} | {percent((by_pair[0], by_pair[1]))} |")


def drawn_tags(generator: np.random.Generator, words: int) -> list[Range]:
    """Returns up to `TAGS` spans that are nested or apart, the longest first."""
    spans: list[Range] = []
    for _ in range(20 * TAGS if words else 0):
        length = min(int(generator.integers(1, LONGEST + 1)), words)
        a = int(generator.integers(0, words - length + 1))
        b = a + length
        if len(spans) < TAGS and all(
            b <= first or last <= a or (first <= a and b <= last) or (a <= first and last <= b) for first, last in spans
        ):
            spans.append((a, b))
    return sorted(spans, key=lambda span: span[0] - span[1])


def make_systems(run: TrainedRun, pairs: Pairs, options: argparse.Namespace) -> Systems:
    """Links the pairs in all ways; the first one is that of markup."""
    attention, name = run_matrices(run, pairs)
    by_attention = {f"attention ({name})": attention}
    if not name.endswith("side"):
        weights, name = run_matrices(run, pairs, calibrated=False)
        by_attention[f"attention without gold links ({name})"] = weights
    matrices = attention
    systems: Systems = {}
    statistics = known_statistics(run)
    if statistics:
        words = [(source.split(), target.split()) for source, target in zip(*pairs.words, strict=True)]
        for name, own in by_attention.items():
            mixed = [statistics.mean_with(matrix, *both) for matrix, both in zip(own, words, strict=True)]
            systems[f"{name} and statistics, our rule"] = mixed, our_rule
        matrices, _ = next(iter(systems.values()))
        alone = [statistics.probabilities(*both) if all(both) else np.zeros((0, 0)) for both in words]
        systems["statistics, our rule"] = alone, our_rule
    systems |= {f"{name}, our rule": (own, our_rule) for name, own in by_attention.items()}
    if options.reverse:
        turned, other = run_matrices(load_run(options.reverse), pairs, turned=True)
        both = [(one + two) / 2 for one, two in zip(attention, turned, strict=True)]
        systems[f"attention's mean with the opposite run ({other}), our rule"] = both, our_rule
    systems["the first, smallest range of links above 0.5"] = matrices, covering
    if options.eflomal:
        config = options.training_text or run.directory.config
        linked = eflomal_matrices(options.eflomal, config, pairs)
        for combined, links in linked.items():
            rule = our_rule if combined.startswith("mean") else covering
            systems[f"eflomal, {combined}, {'our rule' if rule is our_rule else 'smallest range'}"] = links, rule
        systems["eflomal, grow-diag, our rule"] = linked["grow-diag"], our_rule
    systems["the last layer's first head, smallest range"] = first_head_matrices(run, pairs), covering
    return systems


def join(first: Pairs, second: Pairs) -> Pairs:
    """Returns the pairs of two sets."""
    source, target = ([*one, *other] for one, other in zip(first.words, second.words, strict=True))
    sides = ([*first.source, *second.source], [*first.target, *second.target])
    return Pairs(*sides, (source, target), [*first.gold, *second.gold], False)


def main() -> None:
    """Reads the options, links the pairs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument(
        "--set", choices=("test", "choice"), default="test", help="the set of the config (default: test)"
    )
    for name in ("source", "reference", "alignments", "source_words", "target_words"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument(
        "--reverse", type=Path, help="a run of the opposite direction, whose links are averaged with RUN's"
    )
    parser.add_argument("--eflomal", help="the program eflomal-align")
    parser.add_argument("--training_text", type=Path, help="config whose training text eflomal reads (default: RUN's)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--pool", action="store_true", help="pool the pairs of the files with the choice set of the config"
    )
    options = parser.parse_args()
    run = load_run(options.run)
    pairs = read_pairs(run, options)
    systems = make_systems(run, pairs, options)
    if options.pool:
        others = read_pairs(run, argparse.Namespace(source=None, set="choice"))
        of_others = make_systems(run, others, options)
        systems = {
            name: (matrices + of_others[name][0], rule)
            for name, (matrices, rule) in systems.items()
            if name in of_others
        }
        pairs = join(pairs, others)
    measure(pairs, systems, options.seeds)
    measure_several(pairs, next(iter(systems.values()))[0], options.seeds)


if __name__ == "__main__":
    main()
