"""Tasks whose alignment is known: a model that has learnt to copy, or to turn a sequence round, attends to the token
that it is about to write, so links read on the output side are right and those of the input side are one place off."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.alignment.error_rate import alignment_error_rate
from qkv.alignment.links import as_links, extract_links
from qkv.alignment.word_matrix import row_words, word_matrix
from qkv.config.choices.inspection import LABEL_SIDES
from qkv.decoding.forced import forced_pass
from qkv.inspection.experiments.faithfulness import Scorer, score_diagonal
from qkv.inspection.experiments.removal import ScoredSentence, measure_sentences
from qkv.model.transformer import Transformer
from qkv.text.batch import forced_batch
from qkv.text.corpora.word_links import GoldAlignment
from qkv.text.tokens.special_tokens import EOS
from qkv.training.loss import TotalLoss
from qkv.training.step import TrainStep

pytestmark = pytest.mark.minutes

SYMBOLS, UPDATES, SENTENCES = 12, 450, 64
TASKS = {"copy": lambda row: row, "reverse": lambda row: row[::-1]}
FIRST = 4 + len(TASKS)


def pairs_of(tasks, generator):
    """Sequences of different symbols after one that says the task, so that every link is known from what is linked."""
    pairs = []
    for task in tasks:
        row = (FIRST + generator.permutation(SYMBOLS)[: generator.integers(4, 9)]).tolist()
        pairs.append(([4 + [*TASKS].index(task), *row], [*TASKS[task](row), EOS]))
    return pairs


@pytest.fixture(scope="module")
def model():
    """One model of both tasks."""
    keras.utils.set_random_seed(1)
    sizes = {"d_model": 64, "num_heads": 1, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 12}
    model = Transformer(FIRST + SYMBOLS, **sizes, dropout=0.0)
    optimizer = keras.optimizers.Adam(0.003)
    model(np.ones((1, 2), "int32"), np.ones((1, 2), "int32"))
    update = TrainStep(TotalLoss(model), optimizer, tf.distribute.get_strategy())
    generator = np.random.default_rng(0)
    for _ in range(UPDATES):
        logs = update(forced_batch(pairs_of([*TASKS] * (SENTENCES // 2), generator)))
    assert float(logs.loss / logs.tokens) < 0.05  # the tasks are learnt
    return model


@pytest.mark.parametrize("task", TASKS)
def test_links_are_right_on_the_output_side_and_wrong_on_the_input_side(task, model):
    pairs = pairs_of([task] * SENTENCES, np.random.default_rng(1))
    weights = forced_pass(model, *forced_batch(pairs).ids, ("cross",)).attention["cross"].numpy()[:, 0, 0]
    gold = [{(source.index(symbol), j) for j, symbol in enumerate(target[:-1])} for source, target in pairs]
    rates = {}
    for side in LABEL_SIDES:
        links = []
        for matrix, (source, target) in zip(weights, pairs, strict=True):
            words = [*range(len(source)), None]
            matrix = matrix[: len(target), : len(words)]
            rows = row_words([*range(len(target) - 1), None], side)
            links.append(as_links(extract_links(word_matrix(matrix, words, rows, len(source), len(source)), "target")))
        golds = [GoldAlignment(frozenset(one), frozenset(one)) for one in gold]
        rates[side] = alignment_error_rate(links, golds).aer
    assert rates["output"] < 0.05 and rates["input"] > 0.7, rates


@pytest.mark.parametrize("task", TASKS)
def test_attention_is_as_faithful_as_the_known_links_and_the_diagonal_only_where_it_is_the_alignment(task, model):
    pairs = pairs_of([task] * 20, np.random.default_rng(2))
    weights = forced_pass(model, *forced_batch(pairs).ids, ("cross",)).attention["cross"].numpy()[:, 0, 0]
    sentences = []
    for number, (matrix, (source, target)) in enumerate(zip(weights, pairs, strict=True)):
        shape = len(target), len(source)
        noise = np.random.default_rng(number).exponential(size=shape)
        gold = np.array([[float(symbol == predicted) for symbol in source] for predicted in target])
        scores = {"gold": gold, "weights": matrix[: shape[0], : shape[1]], "random": noise}
        scores["diagonal"] = score_diagonal(len(target), len(source) - 1)
        scores["diagonal"] = np.pad(scores["diagonal"], [(0, 0), (1, 0)])  # after the symbol of the task
        named = {Scorer(name): score for name, score in scores.items()}
        sentences.append(ScoredSentence(number, source, target, named, noise, np.array(target) != EOS))
    table = measure_sentences(model, sentences, shares=(0.1,))
    sums = table[table["removal"] == "hard"].groupby("scorer")[["comprehensiveness", "tokens"]].sum()
    found = sums["comprehensiveness"] / sums["tokens"]
    assert found["gold"] > 0.9 and found["weights"] > 0.9 and found["random"] < 0.5, found
    assert (found["diagonal"] > 0.9) if task == "copy" else (found["diagonal"] < 0.5), found
