"""The Transformer in JavaScript computes what Keras does, option by option, and what it lacks is refused by name."""

import base64

import numpy as np
import pytest
from keras import ops

from qkv.decoding.constraints import ban_early_end, ban_repeated_ngrams, ban_special_tokens
from qkv.errors import InputError
from qkv.live import model_page
from qkv.live.model_page import check_model, model_settings, named_arrays, pack
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support.random_runs import rounded_run

SOURCES = [[5, 9, 14, 30, 7], [8], [11, 12, 13, 14, 15, 4, 40, 41, 42]]
TRANSLATE = """async ({packed, sources, off}) => {
  const { header, arrays } = await unpackModel(packed);
  const model = new Transformer(header, arrays);
  const found = [];
  for (const ids of sources) {
    const translated = await model.translate([...ids, 3], { off: new Set(off) });
    const { ids: target, logProbabilities, truncated, attention } = translated;
    const flat = Object.entries(attention).map(([site, layers]) => [site, layers.map((layer) => [...layer])]);
    found.push({ ids: target, logProbabilities, truncated, attention: Object.fromEntries(flat) });
  }
  return found;
}"""


def translate(page, run, off=()):
    packed = base64.b64encode(pack(model_settings(run), named_arrays(run))).decode()
    return page.evaluate(TRANSLATE, {"packed": packed, "sources": SOURCES, "off": list(off)})


def compare(run, found, atol=2e-5):
    """One forced pass over what JavaScript found: every token is the likeliest that is allowed."""
    settings = run.config.decoding
    for source, translation in zip(SOURCES, found, strict=True):
        ids = translation["ids"]
        longest = int(settings.max_target_ratio * len(source)) + settings.max_target_extra
        assert len(ids) <= longest
        assert translation["truncated"] == (ids[-1] != EOS)
        assert not translation["truncated"] or len(ids) == longest
        memory = run.model.encode(np.array([[*source, EOS]]))
        output = run.model.decode(np.array([[BOS, *ids[:-1]]]), memory)
        scores = ops.log_softmax(output.logits[0])
        tokens = np.array([ids], "int32")
        for step, token in enumerate(ids):
            allowed = ban_early_end(ban_special_tokens(scores[step : step + 1]), step, settings.min_length)
            allowed = ban_repeated_ngrams(allowed, tokens, step, settings.no_repeat_ngram)
            assert int(ops.argmax(allowed[0])) == token
            np.testing.assert_allclose(translation["logProbabilities"][step], float(scores[step, token]), atol=atol)
        theirs = {"encoder_self": memory.self_attention, "decoder_self": output.decoder_self, "cross": output.cross}
        for site, layers in theirs.items():
            for ours, expected in zip(translation["attention"][site], layers, strict=True):
                np.testing.assert_allclose(np.reshape(ours, expected.shape[1:]), expected[0], atol=atol)


OPTIONS = {
    "the demo's": {"positions_on": "queries_and_keys"},
    "post-norm": {
        "norm": "post",
        "activation": "gelu",
        "positions": "sinusoidal_halves",
        "output_bias": True,
        "scale_embeddings": False,
        "tie_embeddings": "target",
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "untied": {
        "activation": "silu",
        "positions": "learned",
        "tie_embeddings": "none",
        "output_bias": True,
        "d_model": 15,
        "attention": {"cross": {"score": "dot"}, "encoder_self": {"mechanism": "blockwise", "block_size": 4}},
    },
    "rotary": {"positions": "rotary", "norm": "post", "decoder_layers": 2},
    "constrained": {"decoding": {"min_length": 8, "no_repeat_ngram": 2}, "output_bias": True},
}


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_the_page_computes_what_the_model_does(engine, tokenizer, tmp_path, settings):
    run = rounded_run(tokenizer, tmp_path, **settings)
    if settings.get("output_bias"):  # so that the end is likely from the beginning
        bias = next(v for v in run.model.variables if v.path.endswith("embedding/bias"))
        bias.assign(np.where(np.arange(bias.shape[0]) == EOS, 8.0, bias.numpy()))
    compare(run, translate(engine, run))


def test_a_head_that_is_off_contributes_nothing(engine, tokenizer, tmp_path):
    """Its context is zero before the output projection, as if its rows of the projection were."""
    run = rounded_run(tokenizer, tmp_path, decoder_layers=2, positions_on="queries_and_keys")
    places = {
        "cross/1/2": "decoder_1/cross",
        "encoder_self/0/0": "encoder_0/self",
        "decoder_self/0/1": "decoder_0/self",
    }
    whole, changed = translate(engine, run), translate(engine, run, places)
    for place, layer in places.items():
        head, size = int(place[-1]), 4
        (kernel,) = [v for v in run.model.variables if v.path.endswith(f"{layer}_attention/output/kernel")]
        values = kernel.numpy()
        values[head * size : (head + 1) * size] = 0
        kernel.assign(values)
    compare(run, changed)
    assert whole != changed


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"attention": {"cross": {"score": "cosine"}}}, "model.attention.cross.score", "cosine"),
        ({"attention": {"encoder_self": {"mechanism": "lsh"}}}, "model.attention.encoder_self.mechanism", "lsh"),
        ({"attention": {"cross": {"value_projection": False}}}, "model.attention.cross.value_projection", "false"),
        ({"attention": {"decoder_self": {"key_dim": 4}}}, "model.attention.decoder_self.key_dim", "4"),
        ({"positions": "alibi"}, "model.positions", "alibi"),
        ({"decoding": {"force_eos": True}}, "decoding.force_eos", "true"),
    ],
    ids=str,
)
def test_what_the_page_lacks_is_refused_by_name(tokenizer, tmp_path, settings, key, value):
    with pytest.raises(InputError, match=f"{key}: a page with the model inside does not support {value}"):
        check_model(rounded_run(tokenizer, tmp_path, **settings))


def test_a_larger_model_is_refused(tokenizer, tmp_path, monkeypatch):
    run = rounded_run(tokenizer, tmp_path)
    monkeypatch.setattr(model_page, "MOST_PARAMETERS", 1000)
    with pytest.raises(InputError, match=r"supports at most 1,000 parameters, found [\d,]+"):
        check_model(run)


def test_weights_that_no_16_bit_float_holds_are_refused(tokenizer, tmp_path):
    run = rounded_run(tokenizer, tmp_path)
    bias = next(v for v in run.model.variables if v.path.endswith("feed_forward/inner/bias"))
    bias.assign(np.full(bias.shape, 1e5))
    with pytest.raises(InputError, match="encoder_0/feed_forward/inner/bias has numbers that are too large"):
        named_arrays(run)
