"""The table of the matrices of heads, against products of whole matrices."""

import numpy as np
import pandas as pd
import pytest

from qkv.attention import CrossAttention
from qkv.inspection.experiments.head_weights import COLUMNS, head_weights
from qkv.inspection.experiments.spectra import effective_rank
from tests.support.layer_contract import stir
from tests.support.tiny_models import (
    DECODER_ONLY,
    MODELS,
    SOURCE,
    TARGET,
    every_site,
    make_transformer,
    model_of,
    shared_model,
)

NORMS = [name for name in COLUMNS if name.startswith(("norm", "rank"))]


def rows_of(table, **values):
    return table[np.logical_and.reduce([table[name] == value for name, value in values.items()])]


def expected_norms(query, key, value, output):
    """The norms and ranks of whole matrices."""
    products = [query @ key.T, value @ output]
    ranks = [effective_rank(np.linalg.svd(product, compute_uv=False)) for product in products]
    return [np.sqrt((matrix**2).sum()) for matrix in (query, key, value, output, *products)] + ranks


@pytest.mark.parametrize("name", MODELS)
def test_every_head_of_every_architecture_has_one_row(name):
    model = model_of(name)
    table = head_weights(model)
    assert [*table.columns] == COLUMNS
    layers = {id(layer): layer for layers in model.attention_layers().values() for layer in layers}
    assert len(table) == sum(layer.num_heads for layer in layers.values())
    assert not table.duplicated(["site", "layer", "head"]).any()
    assert len(table) == 0 or {*table[["layer", "head", "parameters"]].dtypes} == {np.dtype(int)}
    assert not np.isinf(table[NORMS].to_numpy(float)).any()


@pytest.mark.parametrize("settings", [{}, every_site(key_dim=5, value_dim=3)], ids=["square", "of other sizes"])
def test_norms_are_those_of_the_heads_part_of_each_matrix(settings):
    model = make_transformer(**settings)
    table = head_weights(model)
    assert [*table["site"]] == ["encoder"] * 2 + ["decoder"] * 2 + ["cross"] * 2
    own, cross = model.encoder_blocks[0].self_attention, model.decoder_blocks[0].cross_attention
    for head in range(2):
        keys, values = (slice(head * size, (head + 1) * size) for size in (cross.key_dim, cross.value_dim))
        query, key, value, output = (
            getattr(cross, f"{part}_projection").get_weights()[0].astype("float64")
            for part in ("query", "key", "value", "output")
        )
        expected = expected_norms(query[:, keys], key[:, keys], value[:, values], output[values])
        (row,) = rows_of(table, site="cross", head=head)[NORMS].to_numpy()
        np.testing.assert_allclose(row, expected, rtol=1e-6)
        query, key, value = np.split(
            own.qkv_projection.get_weights()[0].astype("float64"), [2 * own.key_dim, 4 * own.key_dim], axis=1
        )
        output = own.output_projection.get_weights()[0].astype("float64")
        expected = expected_norms(query[:, keys], key[:, keys], value[:, values], output[values])
        (row,) = rows_of(table, site="encoder", head=head)[NORMS].to_numpy()
        np.testing.assert_allclose(row, expected, rtol=1e-6)
    assert {*table["key_size"], *table["value_size"]} == {cross.key_dim, cross.value_dim}


def test_parameters_add_up_to_those_of_the_layer_but_for_the_last_bias():
    model = make_transformer()
    table = head_weights(model)
    for site, (layer,) in model.attention_layers().items():
        whole = sum(array.size for array in layer.get_weights()) - layer.output_dim
        assert rows_of(table, site=site)["parameters"].sum() == whole


def test_heads_that_share_keys_and_values_have_their_norms():
    model = make_transformer(num_heads=4, **every_site(key_value_heads=2))
    table = head_weights(model)
    key, value = (
        getattr(model.decoder_blocks[0].cross_attention, f"{part}_projection").get_weights()[0]
        for part in ("key", "value")
    )
    for head in range(4):
        shared = slice(head // 2 * 2, head // 2 * 2 + 2)
        (row,) = rows_of(table, site="cross", head=head)[["norm_k", "norm_v"]].to_numpy()
        np.testing.assert_allclose(row, [np.linalg.norm(key[:, shared]), np.linalg.norm(value[:, shared])], rtol=1e-6)


def test_a_product_says_what_a_head_computes():
    """Rows of the context are rows of the value times `W_V W_O`, if a head reads one token without biases."""
    layer = CrossAttention(num_heads=2, key_dim=4, use_bias=False)
    memory = np.random.default_rng(0).normal(size=(1, 1, 8)).astype("float32")
    layer(memory, memory)
    stir(layer)

    class Model:
        def attention_layers(self):
            return {"cross": [layer]}

    table = head_weights(Model())
    value, output = (np.array(dense.kernel) for dense in (layer.value_projection, layer.output_projection))
    products = [value[:, part] @ output[part] for part in (slice(0, 4), slice(4, 8))]
    np.testing.assert_allclose(np.array(layer(memory, memory)[0][0]), memory[0] @ sum(products), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(table["norm_vo"], [np.linalg.norm(product) for product in products], rtol=1e-5)


def test_a_matrix_that_is_missing_is_no_number():
    without = head_weights(model_of("transformer without projections"))
    assert without[NORMS].isna().all().all() and (without["parameters"] == 0).all()
    recurrent = head_weights(model_of("recurrent"))
    assert [*recurrent["site"]] == ["cross"] and recurrent[["norm_v", "norm_o", "norm_vo"]].isna().all().all()
    assert recurrent[["norm_q", "norm_k", "norm_qk", "rank_qk"]].notna().all().all()
    assert len(head_weights(model_of("recurrent of one context vector"))) == 0


def test_one_stack_has_one_row_for_all_its_sites():
    table = head_weights(model_of("decoder-only"))
    assert [*table["site"]] == ["decoder"] * DECODER_ONLY["num_heads"]


def test_queries_and_keys_of_one_projection_are_counted_once():
    model = make_transformer(encoder_self={"mechanism": "lsh"})
    row = rows_of(head_weights(model), site="encoder", head=0).iloc[0]
    assert row["norm_q"] == row["norm_k"] > 0
    (layer,) = model.attention_layers()["encoder"]
    whole = layer.qkv_projection.count_params() + layer.output_projection.count_params() - layer.output_dim
    assert rows_of(head_weights(model), site="encoder")["parameters"].sum() == whole


def test_lora_is_part_of_the_matrices():
    architecture, settings = MODELS["transformer"]
    model = shared_model(architecture, **settings, name="with_lora")
    before = head_weights(model)
    model.enable_lora(2)
    pd.testing.assert_frame_equal(head_weights(model), before)  # nothing is learnt yet
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape))
    model(SOURCE, TARGET)
    assert (head_weights(model)[NORMS].to_numpy() != before[NORMS].to_numpy()).all()
