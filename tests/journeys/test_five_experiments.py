"""The page on five experiments: what its lines compute is what NumPy computes from the model's weights alone."""

import re

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

from tests.support import KEPT_RUNS, ROOT
from tests.support.documents import EXPERIMENTS, blocks_of
from tests.support.numpy_transformer import Pass

TEXTS = re.compile(r"```text\n(.*?)```", re.DOTALL)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
KEPT = (
    ("the cat eats the apple .", "le chat noir mange la pomme ."),
    ("the apple eats the cat .", "le chat noir mange la pomme ."),
)

CASES = [
    pytest.param((KEPT_RUNS / "transformer", KEPT), id="positions on the input"),
    pytest.param(
        (ROOT / "runs" / "demo", None),
        id="demo",
        marks=[
            pytest.mark.minutes,
            pytest.mark.skipif(not (ROOT / "runs/demo/manifest.json").is_file(), reason="needs the trained demo"),
        ],
    ),
]


class Page:
    """The page's blocks, run on a run with two sentences; those of the page, if there are none."""

    def __init__(self, folder, sentences):
        setup, *self.blocks = blocks_of(EXPERIMENTS)
        assert setup.count('"runs/demo"') == setup.count("\ninside = ") == 1
        setup = setup.replace('"runs/demo"', repr(str(folder)))
        if sentences:
            setup = setup.replace("\ninside = ", f"\nclean, corrupted = {sentences!r}\ninside = ")
        self.names: dict = {}
        exec(compile(setup, str(EXPERIMENTS), "exec"), self.names)
        run = self.names["run"]
        self.model = run.model
        (self.source, self.target), self.predicted = run.read_ids(self.names["clean"])
        self.oracle = Pass(self.model, self.source, self.target)

    def run(self, number):
        """Runs the block of an experiment, from 1, and returns the names that it and earlier ones have set."""
        exec(compile(self.blocks[number - 1], str(EXPERIMENTS), "exec"), self.names)
        return self.names

    def log_probability(self, **changes):
        return Pass(self.model, self.source, self.target, **changes).log_probability(self.predicted)


@pytest.fixture(scope="module", params=CASES)
def page(request):
    backend = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    yield Page(*request.param)
    pyplot.close("all")
    pyplot.switch_backend(backend)


def test_the_oracle_computes_the_models_pass(page):
    assert page.oracle.values.keys() <= page.names["inside"].arrays.keys()
    for name, value in page.oracle.values.items():
        np.testing.assert_allclose(page.names["inside"].arrays[name], value, err_msg=name, **TOLERANCE)
    assert len(page.source) != len(page.target)


def test_logit_lens(page):
    lens = page.run(1)["lens"]
    names = [name for name in page.oracle.values if name.startswith("decoder") and name.endswith("residual")]
    assert list(lens) == ["decoder.embedding", *names]
    for name, logits in lens.items():
        np.testing.assert_allclose(logits, page.oracle.read_out(page.oracle.values[name]), err_msg=name, **TOLERANCE)
    np.testing.assert_allclose(lens[names[-1]], page.names["inside"].logits, **TOLERANCE)


def test_a_head_removed(page):
    costs = page.run(2)["costs"]
    heads = range(page.model.get_config()["num_heads"])
    without = [page.log_probability(removed=("decoder.0.cross", head)) for head in heads]
    np.testing.assert_allclose(costs, page.log_probability() - np.array(without), **TOLERANCE)
    assert np.abs(costs).min() > 1e-3


def test_a_layer_patched(page):
    """Compared as log-probabilities, since a share may divide by nearly nothing in a model that has learnt little."""
    names = page.run(3)
    outputs = {name: value for name, value in page.oracle.values.items() if name.endswith(".output")}
    assert names["restored"].keys() == outputs.keys()
    (source, _), _ = names["run"].read_ids(names["corrupted"])

    def log_probability(**changes):
        return Pass(page.model, source, page.target, **changes).log_probability(page.predicted)

    np.testing.assert_allclose(names["worst"], log_probability(), **TOLERANCE)
    difference = names["inside"].log_probabilities.sum() - names["worst"]
    for name, value in outputs.items():
        patched = names["worst"] + names["restored"][name] * difference
        np.testing.assert_allclose(patched, log_probability(patched={name: value}), err_msg=name, **TOLERANCE)
    assert names["restored"]["decoder.0.self.output"] == pytest.approx(0, abs=1e-5)  # it has not read the source yet


def test_attention_rollout(page):
    rollout = page.run(4)["rollout"]
    expected = np.eye(len(page.oracle.values["encoder.embedding"]))
    for number in range(len(page.model.encoder_blocks)):
        weights = page.oracle.values[f"encoder.{number}.self.weights"]
        joined = 0.5 * weights.mean(axis=0) + 0.5 * np.eye(len(expected))
        expected = np.einsum("ij,jk->ik", joined, expected)
    np.testing.assert_allclose(rollout, expected, **TOLERANCE)
    np.testing.assert_allclose(rollout.sum(axis=1), 1, **TOLERANCE)
    (axes,) = [axes for axes in pyplot.gcf().axes if axes.images]
    np.testing.assert_array_equal(axes.images[0].get_array(), rollout)


def test_norms_of_values(page):
    names = page.run(5)
    layer = page.model.decoder_blocks[0].cross_attention
    kernel, size = layer.output_projection.get_weights()[0], layer.value_dim
    weights, values = (page.oracle.values[f"decoder.0.cross.{part}"] for part in ("weights", "values"))
    expected = np.zeros(weights.shape)
    for head, row, column in np.ndindex(expected.shape):
        vector = values[head, column] @ kernel[head * size : (head + 1) * size]
        expected[head, row, column] = weights[head, row, column] * np.sqrt((vector**2).sum())
    np.testing.assert_allclose(names["added"], expected, **TOLERANCE)
    np.testing.assert_allclose(names["shares"], expected.sum((0, 1)) / expected.sum(), **TOLERANCE)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("page", CASES[1:], indirect=True)
def test_blocks_print_lines_like_those_below_them(page, number, capsys):
    """Another processor trains other weights, so numbers and some guesses may differ; the labels may not."""
    if number:
        page.run(number)
    else:
        print(page.names["inside"])
    printed, shown = (
        [re.sub(r"-?\d+(\.\d+)?%?", "#", " ".join(line.split())) for line in text.splitlines()]
        for text in (capsys.readouterr().out, TEXTS.findall(EXPERIMENTS.read_text(encoding="utf-8"))[number])
    )
    words = 1 if number == 1 else 100
    assert [line.split()[:words] for line in printed] == [line.split()[:words] for line in shown]
