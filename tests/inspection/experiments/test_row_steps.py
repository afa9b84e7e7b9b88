"""One row of one head in numbers: the printed lines compute what the model computes."""

import math

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection.experiments.activations import read_activations
from qkv.inspection.experiments.row_steps import FUNCTIONS, row_steps
from qkv.inspection.experiments.score_parts import in_float64
from tests.support.minutes import first_at_once
from tests.support.tiny_models import TWO_LAYERS, every_site, shared_transformer

PAIR = [5, 9, 4, 16, 7, 3], [2, 7, 10, 13]
HEAD, ROW, TOKEN = 1, 2, 13
SETTINGS = [
    {"norm": "post", "positions": "learned", "activation": "gelu", **every_site(key_value_heads=1)},
    {"positions_on": "queries_and_keys", "activation": "silu", "output_bias": True},
    {"num_heads": 3, **every_site(key_dim=5, value_dim=3, score="dot", use_bias=False)},
    every_site(projection=False, value_projection=False),
]


def compute(steps, arrays):
    """What the lines compute in an interpreter that knows NumPy and the arrays."""
    names = {"math": math, "np": np, **arrays}
    for step in (*FUNCTIONS, *steps.steps):
        exec(step.line, names)
    return names


@pytest.mark.parametrize("settings", first_at_once(SETTINGS))
def test_the_lines_compute_what_the_model_computes(settings, tmp_path):
    model = in_float64(shared_transformer(**TWO_LAYERS, **settings))
    found, logits = read_activations(model, PAIR)
    for layer in ("encoder.1.self", "decoder.0.self", "decoder.0.cross", "decoder.1.cross"):
        steps = row_steps(model, PAIR, layer, HEAD, ROW, TOKEN)
        np.savez(tmp_path / "arrays.npz", **steps.arrays)
        with np.load(tmp_path / "arrays.npz") as arrays:
            names = compute(steps, arrays)
        seen = 3 if layer == "decoder.0.self" else 6
        kv_head = 0 if settings.get("cross", {}).get("key_value_heads") else HEAD
        expected = {
            "q": found[f"{layer}.queries"][HEAD, ROW],
            "k": found[f"{layer}.keys"][kv_head, :seen],
            "v": found[f"{layer}.values"][kv_head, :seen],
            "scores": found[f"{layer}.scores"][HEAD, ROW, :seen],
            "weights": found[f"{layer}.weights"][HEAD, ROW, :seen],
            "added": found[f"{layer}.head.{HEAD}"][ROW],
            "after": found[f"{layer}.residual"][ROW],
        }
        if layer != "decoder.0.self":
            expected["end"] = found[f"{layer.rsplit('.', 1)[0]}.feed_forward.residual"][ROW]
        if layer == "decoder.1.cross":
            powers = np.exp(logits[ROW] - logits[ROW].max())
            expected |= {"logits": logits[ROW], "probability": powers[TOKEN] / powers.sum()}
        for name, value in expected.items():
            np.testing.assert_allclose(names[name], value, rtol=1e-5, atol=1e-5, err_msg=f"{layer} {name}")
            np.testing.assert_array_equal(names[name], steps.values[name])
        assert ("logits" in names) == (layer == "decoder.1.cross"), "other layers stand below the last one"


def test_a_value_alone_gives_the_logits_of_its_own_vector():
    model = in_float64(shared_transformer(**TWO_LAYERS))
    values = row_steps(model, PAIR, "decoder.1.cross", HEAD, ROW, TOKEN).values
    cross, norm = model.decoder_blocks[1].cross_attention, model.final_norms.decoder
    kernel = cross.output_projection.kernel.numpy().reshape(2, 4, 8)[HEAD]
    expected = model.output_embedding.logits(norm((values["v"] @ kernel)[None]))[0]
    np.testing.assert_allclose(values["alone"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({}, ("decoder.2.cross", HEAD, ROW), "expected one of"),
        ({"cross": {"mechanism": "one_hot"}}, ("decoder.0.cross", HEAD, ROW), "expected the mechanism softmax"),
        ({"cross": {"score": "general"}}, ("decoder.0.cross", HEAD, ROW), "scaled_dot or dot"),
        ({"positions": "rotary"}, ("encoder.0.self", HEAD, ROW), "rotary"),
        ({}, ("decoder.0.cross", 2, 0), r"head: .* 0 to 1"),
        ({}, ("decoder.0.cross", 0, 4), r"row: .* 0 to 3"),
    ],
)
def test_what_no_lines_are_written_for_is_refused(settings, place, message):
    with pytest.raises(InputError, match=message):
        row_steps(in_float64(shared_transformer(**TWO_LAYERS, **settings)), PAIR, *place, TOKEN)
