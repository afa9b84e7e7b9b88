"""Activations by name: identities between them, and passes into which they are put."""

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.inspection.inside import patch_inside, read_inside
from tests.tiny_transformer import shared_transformer

CLEAN = [5, 9, 4, 16, 7, 3], [2, 7, 10, 13]
CORRUPTED = [5, 9, 8, 11, 7, 3], [2, 7, 6, 13]
SETTINGS = [{}, {"norm": "post"}, {"cross": {"score": "additive"}}, {"encoder_self": {"score": "cosine"}}]


def usual(model, pair):
    source, target = (np.array([ids], "int32") for ids in pair)
    return model(source, target).numpy()[0]


@pytest.mark.parametrize("settings", SETTINGS)
def test_activations_add_up_to_what_the_model_computes(settings):
    model = shared_transformer(**settings)
    found, logits = read_inside(model, CLEAN)
    np.testing.assert_array_equal(logits, usual(model, CLEAN))
    for i, block in enumerate(model.decoder_blocks):
        for site, layer in (("cross", block.cross_attention), ("self", block.self_attention)):
            parts = sum(found[f"decoder.{i}.{site}.head.{head}"] for head in range(layer.num_heads))
            expected = found[f"decoder.{i}.{site}.output"] - layer.output_projection.bias.numpy()
            np.testing.assert_allclose(parts, expected, atol=1e-5)
        for site, allowed in (("cross", np.ones((4, 6), bool)), ("self", np.tril(np.ones((4, 4), bool)))):
            powers = np.exp(found[f"decoder.{i}.{site}.scores"]) * allowed
            expected = powers / powers.sum(-1, keepdims=True)
            np.testing.assert_allclose(found[f"decoder.{i}.{site}.weights"], expected, atol=1e-5)
    last = found["decoder.1.feed_forward.residual"][None]
    states = model.final_norms[1](last) if model.final_norms else last
    np.testing.assert_allclose(model.output_embedding.logits(states)[0], logits, atol=1e-5)


@pytest.mark.parametrize("settings", SETTINGS)
def test_patching_with_itself_changes_nothing_and_patching_everything_gives_the_clean_output(settings):
    model = shared_transformer(**settings)
    clean, corrupted = usual(model, CLEAN), usual(model, CORRUPTED)
    np.testing.assert_array_equal(patch_inside(model, CLEAN, CLEAN, ["*"]), clean)
    np.testing.assert_array_equal(patch_inside(model, CORRUPTED, CORRUPTED, ["*.head.*"]), corrupted)
    np.testing.assert_array_equal(patch_inside(model, CLEAN, CORRUPTED, ["*"]), clean)
    some = patch_inside(model, CLEAN, CORRUPTED, ["decoder.0.cross.head.1"])
    assert np.abs(some - clean).max() > 1e-3 and np.abs(some - corrupted).max() > 1e-3
    np.testing.assert_array_equal(usual(model, CORRUPTED), corrupted)


def test_unknown_names_and_other_lengths_are_refused():
    model = shared_transformer()
    with pytest.raises(InputError, match=r"decoder\.0\.cross\.score: .*did you mean decoder"):
        read_inside(model, CLEAN, ["decoder.0.cross.score"])
    with pytest.raises(InputError, match="same number of tokens"):
        patch_inside(model, CLEAN, ([5, 3], [2, 7, 10, 13]), ["encoder.embedding"])
    other = shared_transformer(cross={"mechanism": "blockwise"})
    with pytest.raises(InputError, match="expected the mechanism softmax, found Blockwise"):
        read_inside(other, CLEAN)
