"""The parts of scores: they add up to the model's scores, and each is what NumPy computes from the weights."""

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection.experiments.activations import read_activations
from qkv.inspection.experiments.score_parts import explained_sites, in_float64, split_score
from qkv.model.decoder_only import DecoderOnly
from tests.support.minutes import first_at_once
from tests.support.tiny_models import DECODER_ONLY, TWO_LAYERS, every_site, shared_model, shared_transformer

PAIR = [5, 9, 4, 16, 7, 3], [2, 7, 10, 13]
LAYERS = ["encoder.1.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
SETTINGS = [
    {"norm": "post", "positions": "learned", "scale_embeddings": False, "cross": {"score": "general"}},
    {"num_heads": 3, "positions_on": "queries_and_keys", **every_site(key_dim=5, value_dim=3, score="dot")},
    every_site(projection=False, value_projection=False),
    {"positions": "rotary", **every_site(key_value_heads=1)},
]


@pytest.mark.parametrize("settings", first_at_once(SETTINGS))
def test_parts_add_up_to_the_scores_of_every_layer(settings):
    model = shared_transformer(**TWO_LAYERS, **settings)
    double = in_float64(model)
    names = [f"{layer}.{array}" for layer in LAYERS for array in ("scores", "weights")]
    (usual, _), (found, _) = (read_activations(one, PAIR, names) for one in (model, double))
    for layer in LAYERS:
        row, head = 2, 1
        parts = split_score(double, PAIR, layer, head, row)
        seen = 3 if layer == "decoder.1.self" else 6
        scores = found[f"{layer}.scores"][head, row, :seen]
        assert parts.pairs.shape == (len(parts.query_parts), len(parts.key_parts), seen)
        assert parts.pairs.dtype == scores.dtype == np.float64
        np.testing.assert_allclose(parts.scores, scores, rtol=1e-10, err_msg=layer)
        np.testing.assert_allclose(parts.merged().scores, scores, rtol=1e-10)
        largest = np.abs(scores).max()
        np.testing.assert_allclose(parts.scores, usual[f"{layer}.scores"][head, row, :seen], atol=1e-5 * largest)
        np.testing.assert_allclose(parts.weights, usual[f"{layer}.weights"][head, row, :seen], atol=1e-5)
        assert parts.weights.sum() == pytest.approx(1)


def test_parts_are_named_after_all_that_has_written_into_the_stream():
    double = in_float64(shared_transformer(**TWO_LAYERS, norm="post"))
    parts = split_score(double, PAIR, "decoder.0.cross", 0, 1)
    heads = [f"decoder.0.self.head.{head}" for head in (0, 1)]
    own = ["token", "position", *heads, "decoder.0.self.bias", "decoder.0.self.norm", "queries.bias"]
    assert parts.query_parts == own
    below = ["token", "position"]
    for layer in (0, 1):
        below += [f"encoder.{layer}.self.{part}" for part in ("head.0", "head.1", "bias", "norm")]
        below += [f"encoder.{layer}.feed_forward{part}" for part in ("", ".bias", ".norm")]
    assert parts.key_parts == [*below, "keys.bias"]
    assert parts.merged().query_parts == ["token", "position", "decoder.0.self", "biases"]
    assert (parts.query, parts.keys) == ("7", ["5", "9", "4", "16", "7", "3"])


def normalized(x, norm, whole):
    """Of `whole`, or of a part of it by the statistics of the whole."""
    gamma, beta = (variable.numpy().astype(float) for variable in (norm.gamma, norm.beta))
    deviation = np.sqrt(whole.var(-1, keepdims=True) + norm.epsilon)
    return (x - x.mean(-1, keepdims=True)) / deviation * gamma + (beta if x is whole else 0)


def test_a_part_goes_through_the_normalisations_above_it_as_numpy_computes_it():
    """The first head's output and the tokens, from the first layer of a post-norm encoder to a score of the second."""
    model = shared_transformer(**TWO_LAYERS, norm="post")
    first, second = model.encoder_blocks
    of_first, of_second = (
        [w.numpy().astype(float) for w in b.self_attention.qkv_projection.weights] for b in (first, second)
    )
    ids = np.array(PAIR[0])
    token = model.source_embedding.table.numpy().astype(float)[ids] * 8**0.5
    x = token + model.source_positions.table[: len(ids)]
    query, key, value = (
        part.reshape(-1, 2, 4).swapaxes(0, 1) for part in np.split(x @ of_first[0] + of_first[1], 3, axis=-1)
    )
    powers = np.exp(query @ key.swapaxes(1, 2) / 2)
    context = powers / powers.sum(-1, keepdims=True) @ value
    kernel, bias = (w.numpy().astype(float) for w in first.self_attention.output_projection.weights)
    heads = [context[head] @ kernel.reshape(2, 4, 8)[head] for head in (0, 1)]
    joined = x + sum(heads) + bias
    after = normalized(joined, first.self_attention_residual.normalization, joined)
    inner, outer = first.feed_forward.inner, first.feed_forward.outer
    hidden = np.maximum(after @ inner.kernel.numpy() + inner.bias.numpy(), 0)
    last = after + hidden @ outer.kernel.numpy() + outer.bias.numpy()

    def through(part):
        part = normalized(part, first.self_attention_residual.normalization, joined)
        return normalized(part, first.feed_forward_residual.normalization, last)

    asked, looked_at = through(heads[0]) @ of_second[0][:, 4:8], through(token) @ of_second[0][:, 12:16]
    parts = split_score(in_float64(model), PAIR, "encoder.1.self", 1, 3)
    at = parts.query_parts.index("encoder.0.self.head.0"), parts.key_parts.index("token")
    np.testing.assert_allclose(parts.pairs[at], looked_at @ asked[3] / 2, atol=1e-5)
    assert np.abs(parts.pairs[at]).max() > 0.01


@pytest.mark.parametrize(("score", "head"), [("cosine", 0), ("concat", 1)])
def test_other_scores_are_refused_by_name_where_they_are_asked_for(score, head):
    double = in_float64(shared_transformer(**TWO_LAYERS, cross={"score": score}))
    with pytest.raises(InputError, match=rf"decoder\.1\.cross: .*scaled_dot, dot, general.*found {score}"):
        split_score(double, PAIR, "decoder.1.cross", head, 0)
    scores = read_activations(double, PAIR, ["encoder.1.self.scores"])[0]["encoder.1.self.scores"]
    parts = split_score(double, PAIR, "encoder.1.self", head, 2)
    np.testing.assert_allclose(parts.scores, scores[head, 2], rtol=1e-10)


def test_unknown_places_and_other_architectures_are_refused():
    double = in_float64(shared_transformer(**TWO_LAYERS))
    with pytest.raises(InputError, match=r"decoder\.0\.cros: expected one of encoder\.0\.self.*did you mean"):
        split_score(double, PAIR, "decoder.0.cros", 0, 0)
    with pytest.raises(InputError, match="head: expected a number from 0 to 1, found 2"):
        split_score(double, PAIR, "decoder.0.cross", 2, 0)
    with pytest.raises(InputError, match="row: expected a number from 0 to 3, found 5"):
        split_score(double, PAIR, "decoder.0.cross", 0, 5)
    with pytest.raises(InputError, match="expected a Transformer with encoder and decoder, found DecoderOnly"):
        split_score(shared_model(DecoderOnly, **DECODER_ONLY), PAIR, "decoder.0.self", 0, 0)


def test_scores_with_a_bias_of_distance_are_refused_and_those_of_cross_attention_are_not():
    model = shared_transformer(**TWO_LAYERS, positions="alibi")
    assert explained_sites(model) == ["cross"]
    double = in_float64(model)
    with pytest.raises(InputError, match=r"encoder\.0\.self: positions alibi add to scores"):
        split_score(double, PAIR, "encoder.0.self", 0, 1)
    found, _ = read_activations(double, PAIR, ["decoder.1.cross.scores"])
    parts = split_score(double, PAIR, "decoder.1.cross", 0, 1)
    np.testing.assert_allclose(parts.scores, found["decoder.1.cross.scores"][0, 1], rtol=1e-10)
