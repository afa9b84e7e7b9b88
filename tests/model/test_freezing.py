"""Frozen parts: named in every architecture, and bit for bit as they were after updates."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.config.choices.model import ARCHITECTURES, MODEL_PARTS, PARTS_MISSING
from qkv.errors import InputError
from qkv.model.freezing import PARTS, describe_parameters, freeze_parts, weights_of_part
from qkv.training.accumulation import Accumulation
from qkv.training.loss import TotalLoss
from qkv.training.optimizers import make_optimizer
from qkv.training.progress import Progress
from qkv.training.step import TrainStep
from tests.support.tiny_models import MODELS, make_model, model_of
from tests.support.tiny_runs import MINIMAL, problem
from tests.support.training import batch_of

KINDS = {"Transformer": "transformer", "Recurrent": "recurrent", "DecoderOnly": "decoder_only"}


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_is_of_the_embeddings_the_encoder_or_the_decoder_and_of_one_of_them(name):
    model = model_of(name)
    parts = [weights_of_part(model, part) for part in ("embeddings", "encoder", "decoder")]
    assert sorted(x.path for part in parts for x in part) == sorted(x.path for x in model.weights)


@pytest.mark.parametrize("name", ["transformer", "recurrent", "decoder-only"])
def test_an_architecture_has_the_parts_that_are_listed_for_it(name):
    model = model_of(name)
    missing = PARTS_MISSING.get(KINDS[type(model).__name__], ())
    assert {part for part in MODEL_PARTS if not weights_of_part(model, part)} == set(missing)
    assert set(PARTS) == set(MODEL_PARTS) and set(PARTS_MISSING) < set(ARCHITECTURES)


def test_a_layers_parts_are_its_attention_its_network_and_its_normalisations():
    model = model_of("transformer")
    names = ("self_attention", "cross_attention", "feed_forward", "normalizations")
    parts = [{x.path for x in weights_of_part(model, part)} for part in names]
    layers = {x.path for part in ("encoder", "decoder") for x in weights_of_part(model, part)}
    assert set().union(*parts) == layers and sum(map(len, parts)) == len(layers)


def test_frozen_weights_stay_bit_for_bit_and_all_others_are_trained():
    keras.utils.set_random_seed(3)
    architecture, settings = MODELS["transformer"]
    model = make_model(architecture, **settings)
    freeze_parts(model, ["encoder", "cross_attention"])
    frozen = {id(x) for part in ("encoder", "cross_attention") for x in weights_of_part(model, part)}
    before = model.get_weights()
    settings = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}
    made = make_optimizer(0.01, optimizer="muon", **settings)
    made.build(model.trainable_variables)
    step = TrainStep(TotalLoss(model), made, tf.distribute.get_strategy())
    accumulation = Accumulation(step)
    for _ in range(2):
        accumulation.make([batch_of(rows) for rows in ([1, 2], [3, 0])], Progress())
    for variable, value in zip(model.weights, before, strict=True):
        assert np.array_equal(variable, value) == (id(variable) in frozen), variable.path
    trained = sum(x.size for x, y in zip(before, model.weights, strict=True) if id(y) not in frozen)
    assert describe_parameters(model) == f"{model.count_params():,} parameters, {trained:,} of them trained"


def test_a_part_without_weights_is_refused():
    architecture, settings = MODELS["transformer without projections"]
    with pytest.raises(InputError, match=r"training\.freeze: self_attention has no weights in this model"):
        freeze_parts(make_model(architecture, **settings), ["self_attention"])


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["--training.freeze", "[encodr]"], "found 'encodr'; did you mean encoder?"),
        (["--training.freeze", "encoder"], "training.freeze: expected a list of embeddings, encoder, decoder,"),
        (
            ["--model.architecture", "recurrent", "--training.freeze", "[self_attention]"],
            "recurrent has no self_attention; expected some of embeddings, encoder, decoder, cross_attention",
        ),
        (["--training.freeze", "[encoder, decoder, embeddings]"], "nothing is left to train; leave a part out"),
        (
            ["--model.architecture", "decoder_only", "--training.freeze", "[decoder, embeddings]"],
            "(decoder, embeddings): nothing is left to train",
        ),
    ],
    ids=["misspelt", "no list", "another architecture's", "everything", "everything of another architecture"],
)
def test_parts_that_cannot_be_frozen_are_refused(tmp_path, overrides, told):
    assert told in problem(tmp_path / "small.yaml", *overrides, text=MINIMAL)
