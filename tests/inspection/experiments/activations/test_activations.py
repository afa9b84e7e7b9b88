"""Values inside each architecture by name: identities between them, and passes into which they are put."""

import re
from functools import cache

import numpy as np
import pytest

from qkv.attention.masks import causal_mask
from qkv.errors import InputError
from qkv.inspection.experiments.activations import patch_activations, put_activations, read_activations
from qkv.model.decoder_only import DecoderOnly
from qkv.model.interface import TranslationModel
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import Transformer
from tests.support import ROOT
from tests.support.tiny_models import DECODER_ONLY, MODELS, RECURRENT, SIZES, every_site, shared_model

CLEAN = [5, 9, 4, 16, 7, 3], [2, 7, 10, 13]
CORRUPTED = [5, 9, 8, 11, 7, 3], [2, 7, 6, 13]
CASES = {
    "transformer": (Transformer, SIZES | {"decoder_layers": 2}),
    "post": (Transformer, SIZES | {"norm": "post", "num_heads": 3} | every_site(key_dim=5, value_dim=3)),
    "blockwise": (Transformer, SIZES | every_site(mechanism="blockwise")),
    "odd mechanisms": (
        Transformer,
        SIZES
        | {
            "encoder_self": {"mechanism": "uniform"},
            "decoder_self": {"mechanism": "last"},
            "cross": {"mechanism": "one_hot"},
        },
    ),
    "linformer and lsh": (
        Transformer,
        SIZES | {"encoder_self": {"mechanism": "lsh"}, "cross": {"mechanism": "linformer"}},
    ),
    "recurrent": MODELS["recurrent"],
    "recurrent of one context vector": MODELS["recurrent of one context vector"],
    "luong": MODELS["luong"],
    "decoder-only": (DecoderOnly, DECODER_ONLY | {"layers": 2}),
    "decoder-only post": MODELS["decoder-only post"],
}


@cache
def model_of(case):
    architecture, settings = CASES[case]
    return shared_model(architecture, **settings)


@cache
def reading_of(case):
    """What is found for the clean pair, and the logits."""
    return read_activations(model_of(case), CLEAN)


def usual(model, pair):
    source, target = (np.array([ids], "int32") for ids in pair)
    return model(source, target).numpy()[0]


OF_MINUTES = {"post", "blockwise", "recurrent of one context vector", "decoder-only post"}
MARKED = [pytest.param(case, marks=[pytest.mark.minutes] * (case in OF_MINUTES)) for case in CASES]


@pytest.fixture(params=MARKED, ids=lambda case: case.replace(" ", "_"))
def case(request):
    return request.param


def attention_layers(model):
    """Each attention layer with the names of its groups of keys, its own last."""
    if isinstance(model, Recurrent):
        return [(model.attention, ["decoder.0.cross"])] if model.attention else []
    if isinstance(model, DecoderOnly):
        layers = [block.self_attention for block in model.blocks]
        source = [(layer, [f"encoder.{i}.self"]) for i, layer in enumerate(layers)]
        return source + [(layer, [f"decoder.{i}.cross", f"decoder.{i}.self"]) for i, layer in enumerate(layers)]
    found = [(block.self_attention, [f"encoder.{i}.self"]) for i, block in enumerate(model.encoder_blocks)]
    for i, block in enumerate(model.decoder_blocks):
        found += [(block.self_attention, [f"decoder.{i}.self"]), (block.cross_attention, [f"decoder.{i}.cross"])]
    return found


def test_heads_and_bias_add_up_to_the_layers_output(case):
    model, (found, logits) = model_of(case), reading_of(case)
    np.testing.assert_allclose(logits, usual(model, CLEAN), atol=1e-5)
    np.testing.assert_array_equal(found["logits"], logits)
    for layer, names in attention_layers(model):
        heads = [found[f"{name}.head.{head}"] for name in names for head in range(layer.num_heads)]
        bias = 0 if layer.output_projection is None else layer.output_projection.bias.numpy()
        np.testing.assert_allclose(sum(heads) + bias, found[f"{names[-1]}.output"], atol=1e-5)


def test_heads_are_weighted_values_through_their_part_of_the_projection(case):
    model, (found, _) = model_of(case), reading_of(case)
    for layer, names in attention_layers(model):
        size, kernel = layer.value_dim, np.eye(layer.num_heads * layer.value_dim)
        if layer.output_projection is not None:
            kernel = layer.output_projection.kernel.numpy()
        for name in names:
            values = np.matmul(found[f"{name}.weights"], found[f"{name}.values"])
            for head in range(layer.num_heads):
                part = values[head] @ kernel[head * size : (head + 1) * size]
                np.testing.assert_allclose(found[f"{name}.head.{head}"], part, atol=1e-5)


def test_weights_are_the_softmax_of_the_scores_over_all_that_a_row_may_read(case):
    model, (found, _) = model_of(case), reading_of(case)
    for layer, names in attention_layers(model):
        if type(layer.mechanism).__name__ not in ("Softmax", "Blockwise"):
            continue
        queries = found[f"{names[-1]}.queries"]
        powers = {}
        for name in names:
            scores = layer.mechanism.score(queries[None], found[f"{name}.keys"][None])
            np.testing.assert_allclose(found[f"{name}.scores"], scores[0], atol=1e-4)
            reads_all = "cross" in name or (name.startswith("encoder") and not isinstance(model, DecoderOnly))
            allowed = np.ones(scores.shape[-2:]) if reads_all else np.tril(np.ones(scores.shape[-2:]))
            powers[name] = np.exp(found[f"{name}.scores"].astype(np.float64)) * allowed
        total = sum(power.sum(-1, keepdims=True) for power in powers.values())
        for name, power in powers.items():
            np.testing.assert_allclose(found[f"{name}.weights"], power / total, atol=1e-5)


@cache
def corrupted_of(case):
    return usual(model_of(case), CORRUPTED)


def patched(case, names, pair):
    """What `patch_activations` computes, with what was read once for all tests."""
    return put_activations(model_of(case), pair, {name: reading_of(case)[0][name] for name in names})


STREAM = (".residual", ".output", ".states", ".read_out", "logits")


def test_a_pair_patched_with_itself_changes_nothing(case):
    """All but what later values would hide."""
    found, logits = reading_of(case)
    names = [name for name in found if not name.endswith(STREAM)]
    np.testing.assert_array_equal(patched(case, names, CLEAN), logits)


def test_everything_patched_gives_the_clean_output(case):
    found, clean = reading_of(case)
    same_target = CORRUPTED[0], CLEAN[1]
    assert np.abs(usual(model_of(case), same_target) - clean).max() > 1e-3
    np.testing.assert_array_equal(patched(case, [name for name in found if name != "logits"], CORRUPTED), clean)
    of_source = [name for name in found if name.startswith("encoder.")]
    np.testing.assert_array_equal(patched(case, of_source, same_target), clean)


def test_the_model_is_left_as_it_was():
    model = model_of("recurrent")
    own = usual(model, CORRUPTED)
    np.testing.assert_array_equal(patch_activations(model, CLEAN, CORRUPTED, ["*"]), reading_of("recurrent")[1])
    np.testing.assert_array_equal(usual(model, CORRUPTED), own)


@pytest.mark.parametrize("case", ["transformer", "recurrent", "decoder-only"])
@pytest.mark.parametrize("part", ["keys", "values", "scores", "weights", "head.0"])
def test_each_value_of_the_source_has_an_effect_of_its_own(case, part):
    clean, corrupted = reading_of(case)[1], corrupted_of(case)
    some = patched(case, [f"decoder.0.cross.{part}"], CORRUPTED)
    assert np.abs(some - clean).max() > 1e-3 and np.abs(some - corrupted).max() > 1e-4


def test_logits_follow_from_the_transformers_residual_stream():
    for case in ("transformer", "post"):
        model, (found, logits) = model_of(case), reading_of(case)
        last = found[f"decoder.{len(model.decoder_blocks) - 1}.feed_forward.residual"][None]
        states = model.final_norms.decoder(last) if model.final_norms else last
        np.testing.assert_allclose(model.output_embedding.logits(states)[0], logits, atol=1e-5)


def test_logits_follow_from_the_residual_stream_of_a_single_stack():
    for case in ("decoder-only", "decoder-only post"):
        model, (found, logits) = model_of(case), reading_of(case)
        states = model._normalized(found["decoder.1.feed_forward.residual"][None])
        np.testing.assert_allclose(model.output_embedding.logits(states)[0], logits, atol=1e-5)


def test_one_stack_reads_source_and_target_as_one_pass_over_both_does():
    """Against the blocks called once on source and target together."""
    model, (found, _) = model_of("decoder-only"), reading_of("decoder-only")
    S, T = (len(ids) for ids in CLEAN)
    x = model.positions(model.source_embedding(np.array([[*CLEAN[0], *CLEAN[1]]])))
    for i, block in enumerate(model.blocks):
        entered = block.self_attention_residual.enter(x)
        query, key, _ = (part.numpy()[0] for part in block.self_attention.project(entered))
        x, weights, _ = block(x, causal_mask(S + T, S + T))
        rows = x.numpy()[0]
        for name, part in {"encoder": slice(0, S), "decoder": slice(S, S + T)}.items():
            np.testing.assert_allclose(found[f"{name}.{i}.feed_forward.residual"], rows[part], atol=1e-5)
            np.testing.assert_allclose(found[f"{name}.{i}.self.queries"], query[:, part], atol=1e-5)
            np.testing.assert_allclose(found[f"{name}.{i}.self.weights"], weights[0, :, part, part], atol=1e-5)
        np.testing.assert_allclose(found[f"decoder.{i}.cross.weights"], weights[0, :, S:, :S], atol=1e-5)
        np.testing.assert_allclose(found[f"decoder.{i}.cross.keys"], key[:, :S], atol=1e-5)


@pytest.mark.parametrize("case", ["recurrent", "luong", "recurrent of one context vector"])
def test_recurrent_states_keys_and_logits_follow_from_each_other(case):
    model, (found, logits) = model_of(case), reading_of(case)
    memory = [found[name] for name in ("encoder.forward.states", "encoder.backward.states") if name in found]
    memory = np.concatenate(memory, axis=-1)
    np.testing.assert_allclose(memory, model.encode(np.array([CLEAN[0]])).states[0], atol=1e-6)
    context = found["decoder.0.cross.output"] if model.attention else np.repeat(last_states(found)[None], 4, axis=0)
    states, embedded = found["decoder.states"], found["decoder.embedding"]
    if case == "luong":
        expected = np.tanh(np.concatenate([context, states], -1) @ model.decoder.attentional.kernel.numpy())
        queries = states
    else:
        read = np.concatenate([states, embedded, context], -1)
        both = read @ model.decoder.deep_output.kernel.numpy() + model.decoder.deep_output.bias.numpy()
        expected = np.maximum(*np.split(both, 2, axis=-1))
        queries = np.concatenate([found["decoder.start"], states[:-1]])  # the state before a step is the query
    np.testing.assert_allclose(found["decoder.read_out"], expected, atol=1e-5)
    np.testing.assert_allclose(model.output_embedding.logits(expected[None])[0], logits, atol=1e-5)
    if model.attention:
        np.testing.assert_allclose(found["decoder.0.cross.queries"][0], projected(model, "query", queries), atol=1e-5)
        np.testing.assert_allclose(found["decoder.0.cross.keys"][0], projected(model, "key", memory), atol=1e-5)
        np.testing.assert_allclose(found["decoder.0.cross.values"][0], memory, atol=1e-6)


def last_states(found):
    return np.concatenate([found["encoder.forward.states"][-1], found["encoder.backward.states"][0]])


def projected(model, side, x):
    return x @ getattr(model.attention, f"{side}_projection").kernel.numpy() if model.attention.spec.projection else x


def test_all_architectures_name_what_their_cross_attention_computes_alike():
    parts = ("queries", "keys", "values", "scores", "weights", "head.0", "output")
    for case in ("transformer", "recurrent", "decoder-only"):
        found, _ = reading_of(case)
        own = "self" if case == "decoder-only" else "cross"  # one query and one output of source and target
        for part in parts:
            assert f"decoder.0.{own if part in ('queries', 'output') else 'cross'}.{part}" in found
        assert {"encoder.embedding", "decoder.embedding", "logits"} <= set(found)
        assert found["decoder.0.cross.weights"].shape[1:] == found["decoder.0.cross.scores"].shape[1:] == (4, 6)


def test_the_page_names_what_is_there():
    page = (ROOT / "docs" / "learn" / "inside.md").read_text(encoding="utf-8")
    found = {name for case in ("transformer", "recurrent", "decoder-only") for name in reading_of(case)[0]}
    named = re.findall(r"`((?:encoder|decoder)\.[\w.]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    assert len(named) > 20
    for name in named:
        assert any(one == name or one.startswith(f"{name}.") for one in found), name


def test_unknown_names_and_other_lengths_are_refused():
    model = model_of("transformer")
    with pytest.raises(InputError, match=r"decoder\.0\.cross\.score: .*did you mean decoder"):
        read_activations(model, CLEAN, ["decoder.0.cross.score"])
    with pytest.raises(InputError, match="same number of tokens"):
        patch_activations(model, CLEAN, ([5, 3], [2, 7, 10, 13]), ["encoder.embedding"])


@pytest.mark.parametrize("target", [[2, 7, 10], [2, 7, 10, 13, 5]])
def test_a_loop_over_more_or_fewer_positions_is_refused(target):
    model = model_of("recurrent")
    with pytest.raises(InputError, match=r"decoder\.states: .* same number of tokens"):
        patch_activations(model, CLEAN, (CLEAN[0], target), ["decoder.states"])


def test_scores_of_mechanisms_that_have_none_are_refused_by_name():
    for model, name in (
        (model_of("linformer and lsh"), "decoder.0.cross.scores"),
        (model_of("linformer and lsh"), "encoder.0.self.scores"),
        (shared_model(Recurrent, **RECURRENT, cross_attention="uniform"), "*.scores"),
    ):
        with pytest.raises(InputError, match="found none: the mechanism there does not score each pair"):
            read_activations(model, CLEAN, [name])


def test_an_architecture_that_names_nothing_is_refused():
    class Silent(TranslationModel):
        pass

    with pytest.raises(InputError, match="Silent does not name what is inside it"):
        read_activations(Silent(), CLEAN)
