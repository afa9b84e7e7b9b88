"""How often an update, a search and the archive's reader would wait for a GPU: by the kernels that TensorFlow has."""

import pytest
import tensorflow as tf

from qkv.config.choices.inspection import SITES
from qkv.decoding.beam import BeamSearch, BeamSettings
from qkv.decoding.forced import make_forced_graph
from qkv.decoding.greedy import GreedySearch
from qkv.decoding.translator import Translator
from qkv.layers import keras_layers
from qkv.layers.keras_layers import Dropout
from qkv.training.loss import TotalLoss
from qkv.training.optimizers import make_optimizer
from qkv.training.step import TrainStep
from tests.support.devices import copies_to_host, without_kernels
from tests.support.tiny_models import MODELS, TWO_LAYERS, make_transformer, shared_transformer


def update_of(model, optimizer, **settings):
    optimizer = make_optimizer(0.001, optimizer=optimizer, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    optimizer.build(model.trainable_variables)
    step = TrainStep(TotalLoss(model, **settings), optimizer, tf.distribute.get_strategy(), clip_norm=1.0)
    return step._update_graph.get_concrete_function()


@pytest.fixture(scope="module")
def update():
    """A layer on either side, of which every part is used, as on a GPU: 7 layers of dropout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras_layers, "_is_on_gpu", lambda: True)
        return update_of(make_transformer(dropout=0.1), "muon", r_drop=1.0, label_smoothing=0.1)


@pytest.mark.minutes
def test_an_update_copies_the_seeds_of_all_dropout_together_to_the_host_and_hardly_more(update):
    copies = copies_to_host(update)
    seeds = [edge for edge in copies if edge.endswith("-> Unpack") and "int64" in edge]
    assert sum(copies.pop(edge) for edge in seeds) == 2  # to draw from, and to keep
    assert sum(copies.values()) <= 4, copies


def test_no_masks_random_words_travel():
    def edges():
        numbers = tf.TensorSpec([None, None, 8])
        drop = Dropout(0.5, seed=1)
        layer = tf.function(lambda x: drop(x, training=True))
        return {edge.split(" -> ")[0] for edge in copies_to_host(layer.get_concrete_function(numbers))}

    assert "StatelessRandomUniformIntV2(int32)" not in edges()
    with pytest.MonkeyPatch.context() as patch:  # as on other backends
        patch.setattr("keras.backend.backend", lambda: "jax")
        assert "StatelessRandomUniformIntV2(int32)" in edges()


@pytest.mark.minutes
def test_the_reader_and_the_searches_copy_little():
    model = shared_transformer(**TWO_LAYERS)
    reader = make_forced_graph(model, [site for site in SITES if site != "gradients"]).get_concrete_function()
    assert sum(copies_to_host(reader).values()) <= 2
    for search, most in ((GreedySearch(), 6), (BeamSearch(BeamSettings(3, 2, 1.0, 0.0)), 54)):
        graph = Translator(model, None, search=search, max_positions=12).graph().get_concrete_function()
        assert sum(copies_to_host(graph).values()) <= most, search
        assert without_kernels(graph) == set()
    assert without_kernels(reader) == set()


@pytest.mark.minutes
def test_every_operation_of_an_update_has_a_kernel_for_gpus(update):
    assert without_kernels(update) == set()


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["recurrent", "decoder-only"])
def test_every_operation_of_other_architectures_has_a_kernel_for_gpus(name):
    architecture, sizes = MODELS[name]
    model = architecture(**sizes | {"dropout": 0.1})
    model.build()
    assert without_kernels(update_of(model, "adam")) == set()


def test_what_has_no_kernel_and_what_is_copied_is_found():
    """The two findings that the tests above hold down."""
    ids = tf.TensorSpec([4, None], tf.int32)
    assert without_kernels(tf.function(lambda x: tf.split(x, 2)).get_concrete_function(ids)) == {"Split(int32)"}
    numbers = tf.TensorSpec([None, 8], tf.float32)
    words = tf.function(lambda x: tf.reshape(tf.cast(x, tf.int32), (-1,))).get_concrete_function(numbers)
    assert copies_to_host(words) == {"Cast(int32) -> Reshape": 1}
