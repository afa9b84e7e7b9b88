"""The way of the data through an evaluation: few modules, and every pair read once."""

import shutil
from collections import Counter
from functools import partial

import pytest
import tensorflow as tf

from qkv.evaluation.evaluate_set import evaluate_set
from qkv.evaluation.request import EvaluationRequest, read_configured_set
from qkv.model.transformer import Transformer
from qkv.run.trained_run import load_run
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.benchmarks.modules_entered import counts_step_of_evaluation, walk_translate, walk_update, walking

pytestmark = pytest.mark.minutes


@pytest.fixture
def root(unbroken, tmp_path):
    return shutil.copytree(unbroken, tmp_path / "run")


def test_a_translation_and_an_update_enter_few_modules(root):
    translation, update = walk_translate(root), walk_update(root)
    assert len(translation.modules) <= 14, translation.modules
    assert "decoding/translator.py" in translation.modules
    assert len(update.modules) <= 24, update.modules
    assert {"training/step.py", "model/transformer.py"} <= {*update.modules}


@pytest.fixture
def read(monkeypatch):
    """The sentences that models encode, and the targets that they decode at once, each with how often."""
    found = {"encode": Counter(), "decode": Counter()}

    def note(name, ids):
        found[name].update(tuple(row[row != PAD].tolist()) for row in ids.numpy())

    def counting(name, usual):
        def call(model, ids, memory=None, cache=None, **others):
            if cache is None:
                tf.py_function(partial(note, name), [ids], [])
            arguments = (ids,) if name == "encode" else (ids, memory, cache)
            return usual(model, *arguments, **others)

        return call

    for name in found:
        monkeypatch.setattr(Transformer, name, counting(name, getattr(Transformer, name)))
    return found


def test_an_evaluation_enters_few_modules_and_each_pair_is_encoded_twice(root, read):
    """Once by the search and once by the forced pass; references, the set on which the readout is chosen, translations
    and probes are four sets of pairs."""
    run = load_run(root)
    data = read_configured_set(run, "counted", "test")
    for found in read.values():
        found.clear()  # of the golden outputs
    with walking(counts_step_of_evaluation) as walk:
        evaluate_set(EvaluationRequest(run, data))
    assert len(walk.modules) <= 25 and walk.returns <= 10, walk.stays
    assert {"decoding/translator.py", "inspection/recorder.py", "alignment/head_scores.py"} <= {*walk.modules}
    longest = run.config.model.max_positions - 1
    probes = [probe.source for probe in run.config.inspection.probes] * 2  # searched, and read
    sources = run.tokenizer.encode([*data.source * 3, *data.choose_on.corpus.source, *probes])
    assert read["encode"] == Counter((*ids[:longest], EOS) for ids in sources)
    references = run.tokenizer.of_target.encode([*data.reference, *data.choose_on.corpus.target])
    assert Counter((BOS, *ids[:longest]) for ids in references) <= read["decode"]
    assert read["decode"].total() == len(references) + len(data.source) + len(probes) // 2
