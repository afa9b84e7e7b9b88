"""Randomises a model layer by layer, and takes tokens away in another way, and shows what becomes of the scorers.

    python -m tests.benchmarks.faithfulness_controls runs/demo [--sentences 100] [--set test]

From the layer next to the output down to the embeddings, the values of each array of a layer are shuffled; what was
shuffled stays so. After each step the source tokens are scored anew, over the same references. A scorer that says what
the model does must then say something else: Kendall's tau between its new and its old order of the source tokens of a
target token falls to 0, and what it puts first matters no longer to the model as it was trained: its comprehensiveness
there falls to that of the random order (Adebayo et al. 2018, section 3.1).

The last table has the trained model once more with the token for unknown words in place of what is taken away, which
elsewhere becomes padding, and Kendall's tau between both orders of the scorers.
"""

import argparse
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from qkv.config.run import settings_of_set
from qkv.evaluation.measure_comparison import kendall
from qkv.evaluation.request import EvaluationSet, TokenisedSet
from qkv.inspection.experiments import removal
from qkv.inspection.experiments.faithfulness import Scorer, draw_noise, score_sources
from qkv.inspection.experiments.removal import ScoredSentence, measure_sentences
from qkv.run.trained_run import TrainedRun, load_run
from qkv.text.corpora.formats import read_corpus
from qkv.text.tokens.special_tokens import UNK

SITES = ("cross", "norms", "gradients")


def main() -> None:
    """Prints both tables: a row for each scorer, a column for each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentences", type=int, default=100, help="first ones of the set (default: 100)")
    parser.add_argument("--set", default="test", help="(default: test)")
    options = parser.parse_args()
    run = load_run(options.run)
    pairs = first_pairs(run, options.set, options.sentences)
    trained = run.model.get_weights()
    scores = {"trained": score(run, pairs)}
    for name, layers in cascade(run.model):
        shuffle_values(layers)
        scores[name] = score(run, pairs)
    run.model.set_weights(trained)
    orders = pd.DataFrame({step: agreement(scores["trained"], found) for step, found in scores.items()})
    costs = pd.DataFrame({step: comprehensiveness(run, pairs, found) for step, found in scores.items()})
    print("Kendall's tau with the order of the trained model, mean over target tokens\n")
    print(orders.round(2).to_string())
    print("\ncomprehensiveness in the trained model, mean over the shares\n")
    print(costs.round(3).to_string())
    with patch.object(removal, "PAD", UNK):
        unknown = pd.Series(comprehensiveness(run, pairs, scores["trained"]))
    print("\ncomprehensiveness in the trained model, by what stands for the tokens that are taken away\n")
    print(pd.DataFrame({"padding": costs["trained"], "unknown words": unknown}).round(3).to_string())
    print(f"\nKendall's tau {float(kendall(costs['trained'].to_numpy(), unknown.to_numpy())):.2f}")


def first_pairs(run: TrainedRun, name: str, sentences: int) -> list:
    """Returns the first pairs of sources and references of a set."""
    corpus = read_corpus(settings_of_set(run.config, name, run.directory.config)).in_memory()
    data = EvaluationSet(name, corpus.source[:sentences], corpus.target[:sentences])
    return list(TokenisedSet.of(data, run.tokenizer).pair_references(run.config.model.max_positions))


def cascade(model):
    """Yields the names and layers of a Transformer from the output down to the embeddings."""
    for side in ("decoder", "encoder"):
        blocks = getattr(model, f"{side}_blocks")
        for number in reversed(range(len(blocks))):
            yield f"{side} {number}", [blocks[number]]
    yield "embeddings", [model.target_embedding, model.source_embedding, model.output_embedding]


def shuffle_values(layers, seed=0) -> None:
    """Shuffles the values of each array; their distribution stays."""
    generator = np.random.default_rng(seed)
    arrays = {id(array): array for layer in layers for array in layer.weights}
    for array in arrays.values():
        array.assign(generator.permutation(array.numpy().ravel()).reshape(array.shape))


def score(run: TrainedRun, pairs) -> list[dict[Scorer, np.ndarray]]:
    """Scores the source tokens of every sentence with the weights that the model has now."""
    records = run.recorder(SITES).record(pairs, sites=SITES)
    return [score_sources(record, draw_noise(record, 0)) for record in records]


def agreement(first, second) -> dict[str, float]:
    """Returns for each scorer the mean of Kendall's tau over the target tokens; rows that order nothing count 0."""
    return {
        str(scorer): float(
            np.mean(
                np.concatenate(
                    [np.nan_to_num(kendall(a[scorer], b[scorer])) for a, b in zip(first, second, strict=True)]
                )
            )
        )
        for scorer in first[0]
    }


def comprehensiveness(run: TrainedRun, pairs, scores) -> dict[str, float]:
    """Returns what taking away the first tokens of these orders costs the model."""
    sentences = [
        ScoredSentence(
            pair.id, *pair.ids, found, found[Scorer("random")], np.arange(len(pair.ids[1])) + 1 < len(pair.ids[1])
        )
        for pair, found in zip(pairs, scores, strict=True)
    ]
    table = measure_sentences(run.model, sentences, threads=2)
    table = table[table["removal"] == "hard"]
    table = table.assign(name=[str(Scorer(*row)) for row in table[list(Scorer._fields)].itertuples(index=False)])
    sums = table.groupby("name", sort=False)[["comprehensiveness", "tokens"]].sum()
    return (sums["comprehensiveness"] / sums["tokens"]).to_dict()


if __name__ == "__main__":
    main()
