"""One row of one head in JavaScript: every number is that of `row_steps`, and changes are those of Python."""

import base64

import numpy as np
import pytest

from qkv.inspection.experiments.row_steps import row_steps
from qkv.inspection.experiments.score_parts import in_float64
from qkv.live.model_page import model_settings, named_arrays, pack
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support.changed_models import SITES, changed_model, forced
from tests.support.random_runs import rounded_run

SOURCE, TARGET = [5, 9, 14, 30, 7, EOS], [8, 21, 13, 40, EOS]
INSIDE = """async ({packed, source, target, where, changes}) => {
  const { header, arrays } = await unpackModel(packed);
  const plain = (value) => (ArrayBuffer.isView(value) ? [...value] : Array.isArray(value) ? value.map(plain) : value);
  const facts = new Transformer(header, arrays).inside(source, target, where, changes);
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, plain(value)]));
}"""
FORCED = """async ({packed, source, target, changes}) => {
  const { header, arrays } = await unpackModel(packed), model = new Transformer(header, arrays);
  changes.sharpness = Number(changes.sharpness ?? 1); // JSON has no infinity
  const { ids, logProbabilities, attention } = await model.translate(source, changes, undefined, target);
  return { ids, logProbabilities, weights: attention.cross.map((layer) => [...layer]) };
}"""


def packed(run):
    return base64.b64encode(pack(model_settings(run), named_arrays(run))).decode()


def inside(page, run, site, layer, head, row, **changes):
    """The numbers of a row as the page computes them."""
    where = {"site": site, "layer": layer, "head": head, "row": row}
    changes = {"off": None, **changes} if changes else {}
    return page.evaluate(
        INSIDE.replace("where, changes)", "where, { ...UNCHANGED, ...changes, off: new Set() })"),
        {"packed": packed(run), "source": SOURCE, "target": TARGET, "where": where, "changes": changes},
    )


RUNS = {
    "the demo's": {"positions_on": "queries_and_keys", "decoder_layers": 2, "encoder_layers": 2},
    "post-norm": {"norm": "post", "output_bias": True, "tie_embeddings": "target", "decoder_layers": 2},
    "dot": {"attention": {site: {"score": "dot"} for site in ("cross", "encoder_self", "decoder_self")}},
}


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_every_number_of_a_row_is_that_of_the_steps_in_python(engine, tokenizer, tmp_path, settings):
    run = rounded_run(tokenizer, tmp_path, **settings)
    model, pair = in_float64(run.model), (SOURCE, [BOS, *TARGET[:-1]])
    last_layers = dict.fromkeys(SITES, run.config.model.decoder_layers - 1)
    last_layers["encoder_self"] = run.config.model.encoder_layers - 1
    places = [(site, *place) for site, last in last_layers.items() for place in ((0, 0, 0), (last, 2, 3), (last, 1, 4))]
    for site, layer, head, row in places:
        steps = row_steps(model, pair, SITES[site].format(layer), head, row, TARGET[row])
        expected = dict(steps.arrays) | dict(steps.values)
        ours = inside(engine, run, site, layer, head, row)
        names = {"query": "q", "keys": "k", "values": "v", "read": "x", "others": "other_heads", "states": "memory"}
        same = ("before", "products", "scores", "weights", "context", "added", "after")
        for name, theirs in {**names, **dict(zip(same, same, strict=True))}.items():
            np.testing.assert_allclose(ours[name], expected[theirs], atol=1e-4, err_msg=name)
        np.testing.assert_allclose(ours["bias"], expected["b_o"], atol=1e-6)
        np.testing.assert_allclose(ours["lengths"], np.linalg.norm(expected["v"] @ expected["W_o"], axis=-1), atol=1e-4)
        assert np.allclose(ours["products"], np.multiply(ours["scores"], 1 / ours["scale"]))
        for name, theirs in (("position", "position"), ("positions", "positions")):
            assert (ours[name] is None) == (theirs not in expected)
            if ours[name] is not None:
                np.testing.assert_allclose(ours[name], expected[theirs], atol=1e-5)
        if "alone" in expected:  # in the last cross-attention
            assert ours["alone"] == expected["alone"].argmax(-1).tolist()
        assert len(ours["alone"]) == (0 if site == "encoder_self" else len(ours["keys"]))


CHANGES = {
    "without W_Q and W_K": ({"rawVectors": True}, ["raw vectors"], None),
    "without W_O": ({"withoutOutput": True}, ["without W_O"], None),
    "both": ({"rawVectors": True, "withoutOutput": True}, ["raw vectors", "without W_O"], None),
    "one-hot": ({"sharpness": "Infinity"}, [], np.inf),
    "uniform": ({"sharpness": 0}, [], 0.0),
    "sharper": ({"sharpness": 2.5}, [], 2.5),
    "not divided": ({"unscaled": True}, [], 2.0),  # the root of the key size, 4
}


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    return rounded_run(tokenizer, tmp_path_factory.mktemp("run"), decoder_layers=2, positions_on="queries_and_keys")


@pytest.mark.parametrize(("changes", "names", "factor"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_mechanism_is_that_of_python(engine, run, changes, names, factor):
    expected, weights = forced(changed_model(run, names), SOURCE, TARGET, factor)
    arguments = {"packed": packed(run), "source": SOURCE, "target": TARGET}
    ours = engine.evaluate(FORCED, {**arguments, "changes": changes})
    assert ours["ids"] == TARGET
    np.testing.assert_allclose(ours["logProbabilities"], expected, atol=1e-4)
    for layer, theirs in zip(ours["weights"], weights, strict=True):
        np.testing.assert_allclose(np.reshape(layer, theirs.shape), theirs, atol=1e-4)
    unchanged = engine.evaluate(FORCED, {**arguments, "changes": {}})
    assert np.abs(np.subtract(unchanged["logProbabilities"], expected)).max() > 1e-3


def test_the_inside_of_a_changed_row_adds_up(engine, run):
    """Its parts are the state that the changed layer leaves."""
    for changes in ({"rawVectors": True}, {"withoutOutput": True}, {"unscaled": True, "sharpness": 3}):
        ours = inside(engine, run, "cross", 0, 1, 3, **changes)
        total = sum(np.array(ours[part]) for part in ("before", "added", "others"))
        total = total + (0 if ours["bias"] is None else np.array(ours["bias"]))
        np.testing.assert_allclose(ours["sum"], total, atol=1e-5)
        exponents = np.exp(np.multiply(ours["scores"], changes.get("sharpness", 1)))
        np.testing.assert_allclose(ours["weights"], exponents / exponents.sum(), atol=1e-5)
        np.testing.assert_allclose(ours["context"], np.array(ours["weights"]) @ np.array(ours["values"]), atol=1e-5)
        if "rawVectors" in changes:
            placed = np.add(ours["read"], ours["position"])
            np.testing.assert_allclose(ours["query"], placed[4:8], atol=1e-5)
