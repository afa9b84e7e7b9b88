"""Measures what it costs when heads compare queries and keys in fewer directions, and draws their spectra.

    python -m tests.benchmarks.truncated_heads runs/demo [RUN2 ...] --ranks 32 16 8 4 2 1 0 [--sentences 500]
        [--sites all cross encoder_self decoder_self] [--picture spectra.png]

Every head of a site is truncated to a rank, in turn for each site and for all sites at once; the validation set is
translated by greedy search, and its references are scored. No weights are trained again, and no file of a run is
changed. Without `--ranks` it only draws.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from qkv.config.choices.model import ATTENTION_SITES
from qkv.decoding.build import build_translator
from qkv.decoding.greedy import GreedySearch
from qkv.inspection.colours import HEAD_COLOURS
from qkv.inspection.experiments.intervention import changeable_layers
from qkv.inspection.experiments.spectra import query_key_kernels, query_key_spectrum, spectra_table, truncate_heads
from qkv.metrics.bleu import score_bleu
from qkv.metrics.likelihood import LikelihoodMeter
from qkv.run.trained_run import TrainedRun, load_run
from qkv.text.corpora.formats import read_corpus
from qkv.text.tokens.encoding import encode_sentences

COLOURS = HEAD_COLOURS["light"]
LINES = ("-", "--", ":", "-.")


class Meter:
    """BLEU and loss of a run on its validation set, as its weights are now."""

    def __init__(self, run: TrainedRun, sentences: int) -> None:
        corpus = read_corpus(run.config.data.validation)
        self._run, self._source, self._target = run, list(corpus.source[:sentences]), list(corpus.target[:sentences])
        self._translator = build_translator(run.model, run.tokenizer, run.config, GreedySearch(), run.target_tokens)
        self._likelihood = LikelihoodMeter(
            run.recorder(()).read,
            encode_sentences(self._source, run.tokenizer),
            encode_sentences(self._target, run.tokenizer.of_target),
            max_positions=run.config.model.max_positions,
        )

    def measure(self) -> tuple[float, float]:
        """BLEU, and nats a token."""
        texts = [translation.text for translation in self._translator.translate(self._source)]
        bleu = score_bleu(texts, self._target, tokenizer=self._run.config.data.scoring_tokenizer)
        return bleu, self._likelihood.measure().loss


def layers_of(run: TrainedRun, site: str) -> list:
    """The attention layers of a site, or of all."""
    layers = changeable_layers(run.model)
    return [layer for name in (ATTENTION_SITES if site == "all" else (site,)) for layer in layers[name]]


def print_table(run: TrainedRun, sites: list[str], ranks: list[int], sentences: int) -> None:
    """A line for each rank, a column for each site: BLEU and loss."""
    meter = Meter(run, sentences)
    kernels = {site: [query_key_kernels(layer) for layer in layers_of(run, site)] for site in sites}
    heads = layers_of(run, "all")[0].num_heads
    means = {site: spectra_table(found, heads)["effective_rank"].mean() for site, found in kernels.items()}
    print(f"{run.directory.root.name}: the first {sentences} sentences of validation, greedy")
    print("| rank | " + " | ".join(f"{site} BLEU | {site} loss" for site in sites) + " |")
    print("| ---: |" + " ---: |" * (2 * len(sites)))
    for rank in ranks:
        cells = []
        for site in sites:
            restore = truncate_heads(layers_of(run, site), rank)
            cells += ["{:.2f} | {:.3f}".format(*meter.measure())]
            restore()
        print(f"| {rank} | " + " | ".join(cells) + " |", flush=True)
    print(
        "| effective rank, mean of heads | " + " | ".join(f"{means[site]:.1f} | " for site in sites) + "|", flush=True
    )


def draw(runs: list[TrainedRun], path: Path) -> None:
    """A row for each run, a panel for each site, a line for each head."""
    mpl.use("Agg")
    from matplotlib import pyplot

    size = (11, 0.6 + 2.9 * len(runs))
    figure, axes = pyplot.subplots(len(runs), 3, figsize=size, sharey="row", squeeze=False, layout="constrained")
    figure.suptitle("Singular values of W_Q W_K^T, a line for each head", fontsize=11)
    for row, run in zip(axes, runs, strict=True):
        for axis, site in zip(row, ATTENTION_SITES, strict=True):
            for number, layer in enumerate(layers_of(run, site)):
                sides = [np.split(kernel, layer.num_heads, axis=1) for kernel in query_key_kernels(layer)]
                for head, pair in enumerate(zip(*sides, strict=True)):
                    values = query_key_spectrum(*pair)
                    style = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[head % len(LINES)]}
                    label = f"layer {number}" if head == 0 else None
                    axis.plot(range(1, len(values) + 1), values, linewidth=1.2, label=label, **style)
            axis.set_title(f"{run.directory.root.name}: {site}", fontsize=9)
            axis.set_xlim(1, len(values))
            axis.set_xticks([1, *range(8, len(values) + 1, 8)])
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
        row[0].set_ylim(bottom=0)  # now that all of the row is drawn
        row[0].set_ylabel("singular value")
    for axis in axes[-1]:
        axis.set_xlabel("number, largest first (line style: head)")
    figure.savefig(path, dpi=75)


def main() -> None:
    """Prints a table for each run, and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--ranks", type=int, nargs="*", default=[], help="the ranks to measure (default: none)")
    parser.add_argument("--sentences", type=int, default=500, help="of the validation set (default: 500)")
    parser.add_argument("--sites", nargs="+", choices=("all", *ATTENTION_SITES), default=["all", *ATTENTION_SITES])
    parser.add_argument("--picture", type=Path, help="where to draw the spectra")
    options = parser.parse_args()
    runs = [load_run(root) for root in options.runs]
    if options.picture:
        draw(runs, options.picture)
    for run in runs if options.ranks else ():
        print_table(run, options.sites, options.ranks, options.sentences)


if __name__ == "__main__":
    main()
