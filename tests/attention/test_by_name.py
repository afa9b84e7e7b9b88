"""Scores and mechanisms by name, by config and by example."""

import json

import keras
import numpy as np
import pytest

from qkv.attention import AdditiveAttention, CrossAttention, SelfAttention
from qkv.attention.by_name import describe_layer
from qkv.attention.mechanisms import LSH, MECHANISM_CLASSES, Linformer, Softmax
from qkv.attention.scores import SCORE_CLASSES, Concat, Cosine, ScaledDot

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


@keras.saving.register_keras_serializable(package="tests")
class Halved(ScaledDot):
    def prepare(self, query, key):
        return super().prepare(query / 2, key)


LAYERS = {
    "score as a layer": lambda: SelfAttention(2, 4, score=Cosine(initial_scale=3.0)),
    "score as a config": lambda: SelfAttention(2, 4, score={"class_name": "concat", "config": {"units": 3}}),
    "registered score": lambda: SelfAttention(2, 4, score=Halved()),
    "mechanism as a layer": lambda: SelfAttention(2, 4, mechanism=Linformer(projected_length=3), dropout=0.1),
    "mechanism as a config": lambda: SelfAttention(
        2, 4, mechanism={"class_name": "lsh", "config": {"seed": 1}}, score=Cosine(initial_scale=3.0)
    ),
    "as Keras serialises them": lambda: SelfAttention(
        2,
        4,
        score=keras.saving.serialize_keras_object(Concat(units=3)),
        mechanism=keras.saving.serialize_keras_object(Softmax()),
    ),
    "additive": lambda: AdditiveAttention(3, use_bias=True, mechanism={"class_name": "blockwise", "config": {}}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_config_of_plain_values_makes_the_same_layer_again(name):
    layer = LAYERS[name]()
    arguments = {"key": X, "value": X} if name == "additive" else {}
    expected = layer(X, **arguments)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == layer.get_config()
    again(X, **arguments)
    again.set_weights(layer.get_weights())
    for one, other in zip(again(X, **arguments), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_layer_given_as_an_example_gives_its_arguments_and_shares_no_weights():
    score = Cosine(initial_scale=3.0)
    first, second = SelfAttention(2, 4, score=score), SelfAttention(2, 4, score=score)
    first(X), second(X)
    np.testing.assert_allclose(np.exp(first.score.log_scale), 3)
    assert len({id(score), id(first.score), id(second.score)}) == 3
    assert first.score.path.endswith("mechanism/score")
    assert describe_layer("score", SCORE_CLASSES, score) == {"class_name": "cosine", "config": {"initial_scale": 3.0}}


def test_score_and_dropout_of_the_attention_layer_are_those_of_its_mechanism():
    layer = SelfAttention(2, 4, score="cosine", dropout=0.25, mechanism=LSH(buckets=2))
    assert (layer.mechanism.buckets, layer.mechanism.score_name, layer.mechanism.dropout.rate) == (2, "cosine", 0.25)
    assert layer.spec.mechanism["config"].keys() == {"buckets", "chunk_length", "rounds"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SelfAttention(2, 4, mechanism=LSH(score="cosine")), "score: .*'scaled_dot', .*'cosine'; give score"),
        (lambda: SelfAttention(2, 4, mechanism=Softmax(dropout=0.2), dropout=0.1), "dropout: .* 0.1, .* 0.2; give"),
        (lambda: CrossAttention(2, 4, score="euclid"), "score: expected one of scaled_dot.* found 'euclid'"),
        (lambda: CrossAttention(2, 4, mechanism={"class_name": "best"}), "mechanism: .*softmax.* found 'best'"),
        (lambda: CrossAttention(2, 4, mechanism=None), "mechanism: expected one of .* found None"),
    ],
)
def test_what_is_unknown_or_said_twice_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "mechanism", [LSH(score=Cosine(3.0)), keras.saving.serialize_keras_object(LSH(score=Cosine(3.0)))]
)
def test_a_mechanism_may_have_the_score_of_its_layer(mechanism):
    layer = SelfAttention(2, 4, mechanism=mechanism, score={"class_name": "cosine", "config": {"initial_scale": 3.0}})
    assert layer.score.initial_scale == 3.0


def test_a_layer_with_weights_is_no_example():
    score = Cosine()
    score(X[:, None], X[:, None])
    with pytest.raises(ValueError, match="score: expected a layer without weights yet"):
        SelfAttention(2, 4, score=score)


@pytest.mark.parametrize("table", [SCORE_CLASSES, MECHANISM_CLASSES])
def test_every_name_describes_its_class(table):
    for name, class_ in table.items():
        assert describe_layer("layer", table, class_())["class_name"] == name
