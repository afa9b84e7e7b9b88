"""The parts of a logit: they add up to it, and each is what it adds when the norms are held fixed."""

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection.experiments.activations import read_activations
from qkv.inspection.experiments.logit_parts import split_logit
from qkv.inspection.experiments.score_parts import in_float64
from qkv.model.decoder_only import DecoderOnly
from tests.support.tiny_models import DECODER_ONLY, TWO_LAYERS, every_site, shared_model, shared_transformer

PAIR = [5, 9, 4, 16, 7, 3], [2, 7, 10, 13]
SETTINGS = [
    {"norm": "post", "positions": "learned", "cross": {"score": "additive"}},
    {"num_heads": 3, **every_site(key_dim=5, value_dim=3), "positions": "alibi"},
    {"positions_on": "queries_and_keys", "output_bias": True, "tie_embeddings": "none"}
    | every_site(projection=False, value_projection=False),
    {"positions": "rotary", **every_site(key_value_heads=1)},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_parts_add_up_to_the_logit(settings):
    model = in_float64(shared_transformer(**TWO_LAYERS, **settings))
    _, logits = read_activations(model, PAIR, ["logits"])
    heads = settings.get("num_heads", 2)
    for row, token in ((0, 7), (3, 11)):
        parts = split_logit(model, PAIR, row, token)
        assert parts["logit"].sum() == pytest.approx(logits[row, token], abs=1e-4)
        assert parts["difference"].sum() == pytest.approx(logits[row, token] - logits[row].mean(), abs=1e-4)
        read = parts[parts["source"] >= 0]
        assert len(read) == 2 * heads * 6, "a part for each layer, head and source token"
        assert set(read["part"]) == {"decoder.0.cross", "decoder.1.cross"}


def test_a_part_of_the_last_layer_is_what_its_value_adds_with_the_last_norm_held_fixed():
    model = in_float64(shared_transformer(**TWO_LAYERS))
    found, _ = read_activations(model, PAIR)
    row, token, head, place = 2, 9, 1, 3
    cross, norm = model.decoder_blocks[1].cross_attention, model.final_norms.decoder
    kernel = cross.output_projection.kernel.numpy().reshape(2, 4, 8)[head]
    vector = found["decoder.1.cross.weights"][head, row, place] * found["decoder.1.cross.values"][head, place] @ kernel
    stream = found["decoder.1.feed_forward.residual"][row]
    normal = (vector - vector.mean()) / np.sqrt(stream.var() + norm.epsilon) * norm.gamma.numpy()
    parts = split_logit(model, PAIR, row, token).set_index(["part", "head", "source"])
    expected = normal @ model.output_embedding.table.numpy()[token]
    assert parts.loc[("decoder.1.cross", head, place), "logit"] == pytest.approx(expected, rel=1e-6)


def test_another_architecture_and_a_row_that_is_not_there_are_refused():
    with pytest.raises(InputError, match="expected a Transformer"):
        split_logit(shared_model(DecoderOnly, **DECODER_ONLY), PAIR, 0, 7)
    with pytest.raises(InputError, match=r"row: .* 0 to 3"):
        split_logit(in_float64(shared_transformer(**TWO_LAYERS)), PAIR, 4, 7)
