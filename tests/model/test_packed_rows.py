"""Rows of several sentence pairs: a model computes for each pair what it computes for the pair alone."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.config.choices.model import ATTENTION_SITES
from qkv.model.decoder_only import DecoderOnly
from qkv.model.ensemble import Ensemble
from qkv.model.transformer import Transformer
from qkv.training.loss import GuidedAttention, TotalLoss
from qkv.training.step import BATCH_SIGNATURE
from tests.support.minutes import by_hand
from tests.support.packing import PAIRS, ROWS, alone, pack
from tests.support.tiny_models import (
    DECODER_ONLY,
    SIZES,
    SOURCE,
    TARGET,
    TWO_LAYERS,
    every_site,
    model_of,
    shared_model,
)
from tests.support.training import make_step

BLOCKWISE = {"mechanism": "blockwise"}
# Rows are longer than the model's positions, of which a pair has 8 at most.
TRANSFORMER = SIZES | TWO_LAYERS | {"max_positions": 8}
LANGUAGE_MODEL = DECODER_ONLY | {"layers": 2, "max_positions": 8}
TOKENS = sum(1 + len(target) for _, target in PAIRS)
KINDS_OF_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "alibi")
CASES = {
    **{f"positions {kind}": (Transformer, TRANSFORMER | {"positions": kind}) for kind in KINDS_OF_POSITIONS},
    **{
        f"{kind} on queries and keys": (
            Transformer,
            TRANSFORMER | {"positions": kind, "positions_on": "queries_and_keys"},
        )
        for kind in ("sinusoidal", "learned")
    },
    "post-norm, untied, shared keys": (
        Transformer,
        TRANSFORMER | {"norm": "post", "tie_embeddings": "none", "output_bias": True} | every_site(key_value_heads=1),
    ),
    "no projections": (
        Transformer,
        TRANSFORMER | {"positions_on": "queries_and_keys"} | every_site(projection=False, value_projection=False),
    ),
    **{
        name: (Transformer, TRANSFORMER | dict(zip(ATTENTION_SITES, sites, strict=True)))
        for name, sites in {
            "sink, one_hot, last": [{"mechanism": "sink"}, {"mechanism": "one_hot"}, {"mechanism": "last"}],
            "last, uniform, sink": [{"mechanism": "last"}, {"mechanism": "uniform"}, {"mechanism": "sink"}],
            "one_hot, last, uniform": [{"mechanism": "one_hot"}, {"mechanism": "last"}, {"mechanism": "uniform"}],
            "dot, general, cosine": [{"score": "dot"}, {"score": "general"}, {"score": "cosine"}],
            "additive, concat, dot": [{"score": "additive"}, {"score": "concat"}, {"score": "dot"}],
            "blockwise, also by additive": [BLOCKWISE, BLOCKWISE, BLOCKWISE | {"score": "additive"}],
        }.items()
    },
    **{
        f"decoder-only, {kind}": (DecoderOnly, LANGUAGE_MODEL | {"positions": kind, "source_loss": 0.5})
        for kind in KINDS_OF_POSITIONS
    },
    "decoder-only, untied, post-norm": (
        DecoderOnly,
        LANGUAGE_MODEL | {"tie_embeddings": "none", "norm": "post", "source_loss": 0.5},
    ),
    "decoder-only, positions on queries and keys": (
        DecoderOnly,
        LANGUAGE_MODEL | {"positions_on": "queries_and_keys", "positions": "learned"},
    ),
    **{
        f"decoder-only, {name}": (DecoderOnly, LANGUAGE_MODEL | {"decoder_self": {"mechanism": name}})
        for name in ("sink", "blockwise", "last")
    },
}


def loss_and_gradients(loss, batch):
    """The cross-entropy, the total loss and its gradients, each divided by the number of target tokens of all pairs."""
    variables = loss.model.trainable_variables
    batch = batch.map(tf.constant)
    with tf.GradientTape() as tape:
        cross_entropy, total = loss(batch)
    gradients = tape.gradient(total, [variable.value for variable in variables], unconnected_gradients="zero")
    return [np.asarray(tf.convert_to_tensor(x)) / TOKENS for x in (cross_entropy, total, *gradients)]


def assert_packing_changes_nothing(loss, *batches, with_links=False):
    """Compares the packed pairs with the sum over batches of pairs that have rows of their own."""
    packed = loss_and_gradients(loss, pack(ROWS, with_links=with_links))
    expected = [sum(parts) for parts in zip(*(loss_and_gradients(loss, batch) for batch in batches), strict=True)]
    assert max(np.abs(x).max() for x in expected[2:]) > 0.1
    for found, wanted in zip(packed, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


BY_HAND = (
    "positions sinusoidal_halves",
    "decoder-only, sinusoidal_halves",
    "decoder-only, last",
    "one_hot, last, uniform",
    "additive, concat, dot",
)


@pytest.mark.parametrize("name", [pytest.param(name, marks=by_hand if name in BY_HAND else ()) for name in CASES])
def test_loss_and_gradients_of_packed_pairs_are_those_of_the_pairs_one_by_one(name):
    architecture, settings = CASES[name]
    model = shared_model(architecture, **settings)
    assert model.takes_segments
    assert_packing_changes_nothing(TotalLoss(model, label_smoothing=0.1), alone(range(4)))


TERMS = {
    **{
        f"guided, {side}, {unlinked}": {
            "guided_attention": GuidedAttention(layer=1, head=1, side=side, weight=0.5, unlinked=unlinked)
        }
        for side in ("output", "input")
        for unlinked in ("eos", "nothing")
    },
    "R-Drop": {"r_drop": 2.0},
}


@pytest.mark.parametrize("name", TERMS)
def test_further_terms_of_the_loss_are_those_of_the_pairs_one_by_one(name):
    loss = TotalLoss(shared_model(Transformer, **TRANSFORMER), label_smoothing=0.1, **TERMS[name])
    with_links = name != "R-Drop"
    batches = [alone([number], with_links) for number in range(4)]  # guidance by input tokens does not end at padding
    assert_packing_changes_nothing(loss, *batches, with_links=with_links)


@pytest.mark.minutes
@pytest.mark.parametrize("slices", [1, 2])  # of two slices, one has only a row of padding
def test_weights_after_updates_by_packed_rows_are_those_by_the_pairs(slices):
    def update(batch, **settings):
        model, step = make_step(**settings)
        for _ in range(2):
            metrics = step(batch)
        return [*metrics, *model.trainable_variables]

    signature = BATCH_SIGNATURE._replace(source_segments=BATCH_SIGNATURE.source, target_segments=BATCH_SIGNATURE.source)
    packed = update(pack(ROWS).map(tf.constant), signature=signature, slices=slices)
    for found, expected in zip(packed, update(alone(range(4)).map(tf.constant)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# Every position of every pair has its own token, so the gradient of an embedding is that of a position.
OWN_TOKENS = [([4, 5, 6], [7, 8]), ([10, 11], [12, 13, 14]), ([16, 17, 18, 19], [20, 21])]
OWN_ENDS = [[24, 25], [26, 27], [28, 29]]  # in the place of EOS and BOS


def separate_tokens():
    """A packed batch in which no token occurs twice, and the source and target ids of each pair."""
    batch = pack([[0, 1, 2]], (12, 13), pairs=OWN_TOKENS, links=[[]] * 3)
    source, target = batch.source.copy(), batch.target_input.copy()
    for segment, (end, start) in enumerate(OWN_ENDS, start=1):
        source[(source == 3) & (batch.source_segments == segment)] = end
        target[(target == 2) & (batch.target_segments == segment)] = start
    ids = [
        [
            np.unique(side[segments == n])
            for side, segments in ((source, batch.source_segments), (target, batch.target_segments))
        ]
        for n in (1, 2, 3)
    ]
    return batch._replace(source=source, target_input=target), ids


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        (Transformer, TRANSFORMER),
        (Transformer, TRANSFORMER | every_site(mechanism="blockwise")),
        (DecoderOnly, LANGUAGE_MODEL),
    ],
    ids=["transformer", "blockwise", "decoder-only"],
)
def test_logits_of_a_pair_have_no_gradient_to_the_tokens_of_another_pair(architecture, settings):
    model = shared_model(architecture, **settings | {"vocabulary_size": 30, "tie_embeddings": "none"})
    batch, ids = separate_tokens()
    tables = [model.source_embedding.table.value, model.target_embedding.table.value]
    for pair in range(3):
        with tf.GradientTape() as tape:
            logits = model((batch.source, batch.target_input, batch.source_segments, batch.target_segments))
            total = tf.reduce_sum(tf.sin(logits[batch.target_segments == pair + 1]))
        gradients = [tf.convert_to_tensor(x).numpy() for x in tape.gradient(total, tables)]
        for other in range(3):
            reached = [np.abs(table[rows]).max(axis=1) for table, rows in zip(gradients, ids[other], strict=True)]
            if other == pair:
                assert min(map(np.min, reached)) > 1e-4
            else:
                assert max(map(np.max, reached)) == 0


@pytest.mark.parametrize(("architecture", "settings"), [(Transformer, TRANSFORMER), (DecoderOnly, LANGUAGE_MODEL)])
def test_attention_weights_across_pairs_and_on_padding_are_exactly_zero(architecture, settings):
    model = shared_model(architecture, **settings)
    batch = pack(ROWS)
    segments = batch.source_segments, batch.target_segments
    memory, output = model.encode_and_decode(batch.source, batch.target_input, False, *segments)
    for weights, queries, keys in (
        (memory.self_attention, segments[0], segments[0]),
        (output.decoder_self, segments[1], segments[1]),
        (output.cross, segments[1], segments[0]),
    ):
        own = ((queries[:, :, None] == keys[:, None]) & (keys[:, None] > 0))[:, None]
        for layer in weights:
            assert not np.asarray(layer)[np.broadcast_to(~own, layer.shape)].any()
            assert np.asarray(layer)[np.broadcast_to(own, layer.shape)].any()


REFUSED = {
    "Recurrent": lambda: model_of("recurrent"),
    "Ensemble": lambda: Ensemble([model_of("transformer")]),
    "Linformer": lambda: shared_model(Transformer, **SIZES, cross={"mechanism": "linformer"}),
    "LSH": lambda: shared_model(Transformer, **SIZES, encoder_self={"mechanism": "lsh"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_compute_across_pairs_refuse_segments_and_read_single_pairs(name):
    model = REFUSED[name]()
    assert not model.takes_segments
    because = f"{type(model).__name__}: .* several sentence pairs" + f", because of {name};" * (
        name in ("Linformer", "LSH")
    )
    segments = {"source_segments": np.sign(SOURCE), "target_segments": np.sign(TARGET)}
    for read in (model, model.encode_and_decode):
        with pytest.raises(ValueError, match=because):
            read(SOURCE, TARGET, **segments)
    assert model(SOURCE, TARGET).shape == (3, 5, 17)


@pytest.mark.parametrize("name", ["transformer", "decoder-only"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_segments_of_one_side_alone_are_refused(name, side):
    segments = {f"{side}_segments": np.sign(SOURCE if side == "source" else TARGET)}
    with pytest.raises(ValueError, match=f"segments: .* found the {side}'s"):
        model_of(name)(SOURCE, TARGET, **segments)
