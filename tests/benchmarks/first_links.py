"""The error rates of word links from statistics alone, `qkv link`, beside those of eflomal on the same text.

    python -m tests.benchmarks.first_links configs/manythings_en_fr_guided.yaml --eflomal eflomal-align \\
        --gold data/manythings/alignments/dev.{en,fr,align} --gold graca_enfr.{en,fr,align}

Both aligners read the training text of the config and the sentences of all gold sets. Prints, for each gold set, the
error rates (AER) of each direction, of grow-diag, and of the links that `qkv link` writes; then the 95 % interval of
the difference to eflomal's grow-diag links (a paired bootstrap over sentences), its p, and the seconds of processor.
Without --eflomal, prints our rows alone.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from qkv.alignment.error_rate import AlignmentScore, count_links, error_terms
from qkv.alignment.links import grow_diag
from qkv.alignment.statistical import ParallelWords, StatisticalAligner
from qkv.config import load_run_config
from qkv.statistics.significance import difference_interval, randomisation_p
from qkv.text.corpora.formats import read_corpus, read_parallel_files
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.lines.line import words_of


def links_of_eflomal(program, sources, targets):
    """Returns the links of every line: forward, backward and grow-diag."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("source", "target", "forward", "backward")]
        for path, lines in zip(paths, (sources, targets), strict=False):
            path.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="utf-8")
        options = [text for pair in zip(("-s", "-t", "-f", "-r"), map(str, paths), strict=True) for text in pair]
        path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([program, *options], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path})
        forward, backward = ([pair.sure for pair in read_pharaoh(path)] for path in paths[2:])
    return {"forward": forward, "backward": backward, "grow-diag": list(map(grow_diag, forward, backward))}


def most_probable(probabilities):
    """Returns (drawn, given) words: each drawn word with its most probable word, unless no word is more probable."""
    best = probabilities.argmax(axis=1)
    none = 1 - probabilities.sum(axis=1)
    rows = range(len(best))
    return [(int(i), row) for row, i in zip(rows, best, strict=True) if probabilities[row, i] > none[row]]


def links_of_ours(sources, targets, wanted):
    """Returns the links of the lines from `wanted` on: of each direction, grow-diag, and those that are written."""
    aligner = StatisticalAligner(ParallelWords(sources, targets))
    aligner.train()
    matrices = {}
    numbers = set(aligner.text.pair_numbers[wanted:].tolist())
    for block, both in zip(aligner.text.blocks, aligner.probabilities(), strict=True):
        for offset in range(len(block.counts)):
            if block.first + offset in numbers:
                matrices[block.first + offset] = [matrix[:, offset] for matrix in both]
    pairs = [matrices[number] for number in aligner.text.pair_numbers[wanted:].tolist()]
    forward = [set(most_probable(matrix)) for matrix, _ in pairs]
    backward = [{(i, j) for j, i in most_probable(matrix.T)} for _, matrix in pairs]
    written = list(map(set, aligner.links()))[wanted:]
    grown = list(map(grow_diag, forward, backward))
    return {"forward": forward, "backward": backward, "grow-diag": grown, "as written": written}


def main() -> None:
    """Reads the options, aligns, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path, help="the config whose training text both read")
    parser.add_argument("--gold", type=Path, nargs=3, action="append", required=True, metavar="FILE")
    parser.add_argument("--eflomal", metavar="PROGRAM", help="the path of eflomal-align")
    parser.add_argument("--pairs", type=int, help="read this many pairs of the training text (default: all)")
    options = parser.parse_args()
    corpus = read_corpus(load_run_config(options.config).data.training_corpora)
    sets = [(read_parallel_files(source, target), read_pharaoh(gold)) for source, target, gold in options.gold]
    sides = [[words_of(line) for line in side][: options.pairs] for side in (corpus.source, corpus.target)]
    start = len(sides[0])
    for text, _ in sets:
        for side, lines in zip(sides, (text.source, text.target), strict=True):
            side.extend(map(words_of, lines))
    links = {}
    before = time.process_time()
    links["ours"] = links_of_ours(*sides, start)
    print(f"ours: {time.process_time() - before:.0f} s of processor, {start:,} pairs of training text")
    if options.eflomal:
        before = os.times().children_user
        links["eflomal"] = {name: rows[start:] for name, rows in links_of_eflomal(options.eflomal, *sides).items()}
        print(f"eflomal: {os.times().children_user - before:.0f} s of processor")
    first = 0
    for (_, gold), (path, *_) in zip(sets, options.gold, strict=True):
        rows = slice(first, first := first + len(gold))
        counts = {
            (aligner, name): np.array(list(map(count_links, lists[rows], gold)))
            for aligner, of_aligner in links.items()
            for name, lists in of_aligner.items()
        }
        print(f"\n{path}")
        for (aligner, name), of_pairs in counts.items():
            score = AlignmentScore.of(of_pairs.sum(axis=0))
            rates = (f"{100 * rate:.1f}" for rate in score)
            print(f"  {aligner:<8} {name:<12} AER {next(rates)} %, precision {next(rates)}, recall {next(rates)}")
        for name in ("grow-diag", "as written") if options.eflomal else ():
            pair = [
                [side[:, None] for side in error_terms(counts[key])]
                for key in (("eflomal", "grow-diag"), ("ours", name))
            ]
            low, high = (100 * float(end[0]) for end in difference_interval(*pair))
            p = float(randomisation_p(*pair)[0])
            eflomal, ours = (100 * float(above.sum() / below.sum()) for above, below in pair)
            print(
                f"  ours {name} minus eflomal grow-diag: {ours - eflomal:+.1f} ({low:+.1f} to {high:+.1f}), p = {p:.3f}"
            )


if __name__ == "__main__":
    main()
