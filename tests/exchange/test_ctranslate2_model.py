"""Models in CTranslate2: the same probabilities and attention as ours, for everything that has a counterpart there."""

from importlib.util import find_spec

import ctranslate2
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.exchange.ctranslate2_model import TOKENIZER_FILE, LoadedCTranslate2, write_ctranslate2
from qkv.exchange.export import QUANTIZATIONS
from qkv.text.tokens.special_tokens import EOS
from tests.support.documents import EXPORT, recipe
from tests.support.marian import GOLDEN_PAIRS, MARIAN
from tests.support.random_runs import random_run
from tests.support.text import SENTENCES

SOURCES = SENTENCES[:3]
TARGETS = ["le chat", "un petit chien voit le chat à côté du chien", "der Hund"]


def forced(run):
    """Log-probabilities of the targets' tokens, and the mean attention of the last layer's heads."""
    records = list(run.recorder(["cross"]).record_references(SOURCES, TARGETS))
    return [np.array(record.token_log_probabilities) for record in records], [
        record.attention["cross"][-1].mean(axis=0) for record in records
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "post", "activation": "relu", "tie_embeddings": "all", "positions": "sinusoidal"},
        {"norm": "pre", "activation": "gelu", "tie_embeddings": "target", "positions": "learned"},
        {"norm": "pre", "activation": "silu", "tie_embeddings": "none", "positions": "sinusoidal_halves"}
        | {"output_bias": True, "scale_embeddings": False},
        {"norm": "post", "output_bias": True},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_probabilities_and_attention_are_ours(tokenizer, tmp_path, settings):
    run = random_run(tokenizer, tmp_path, encoder_layers=2, **settings)
    write_ctranslate2(run, tmp_path)
    assert (tmp_path / TOKENIZER_FILE).read_bytes() == tokenizer.model
    translator = ctranslate2.Translator(str(tmp_path), inter_threads=1, intra_threads=1)
    pieces = [[tokenizer.pieces(row) for row in tokenizer.encode(side)] for side in (SOURCES, TARGETS)]
    log_probabilities, attention = forced(run)
    for score, expected in zip(translator.score_batch(*pieces), log_probabilities, strict=True):
        np.testing.assert_allclose(score.log_probs, expected, atol=2e-5)
    results = translator.translate_batch(
        pieces[0], pieces[1], beam_size=1, max_decoding_length=40, return_attention=True
    )
    for result, target, expected in zip(results, pieces[1], attention, strict=True):
        assert result.hypotheses[0][: len(target)] == target
        attention = np.array(result.attention[0])[: len(target)]  # without the column of EOS
        np.testing.assert_allclose(attention, expected[: len(target), :-1], atol=2e-5)


PAGE_SEARCH = {"beam_size": 2, "length_penalty": 1.0, "length_divisor": "power", "force_eos": False, "min_length": 1}
"""The search of CTranslate2 by its defaults."""


def test_the_code_of_the_page_translates_as_the_run_does(tokenizer, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "export" / "ct2"
    folder.mkdir(parents=True)
    run = random_run(tokenizer, tmp_path, norm="post", output_bias=True, max_positions=300)  # it searches 256 tokens
    bias = run.model.target_embedding.bias
    bias.assign(np.array(bias) + 3 * np.eye(bias.shape[0])[EOS])  # or it would never end
    write_ctranslate2(run, folder)
    monkeypatch.chdir(tmp_path)
    exec(recipe("ctranslate2", EXPORT), {})
    decoding = run.config.decoding.model_copy(update=PAGE_SEARCH)
    same_search = run.with_config(run.config.model_copy(update={"decoding": decoding}))
    (expected,) = same_search.translator.translate(["the cat sleeps ."])
    assert len(expected.ids) > 3
    assert capsys.readouterr().out == f"{expected.text}\n"


def test_an_imported_model_scores_targets_that_its_second_subword_model_has_cut(run, tmp_path):
    sources, targets = (lines[:2] for lines in GOLDEN_PAIRS)
    write_ctranslate2(run, tmp_path)
    for side in ("source", "target"):
        assert (tmp_path / f"{side}.spm").read_bytes() == (MARIAN / f"{side}.spm").read_bytes()
    assert not (tmp_path / TOKENIZER_FILE).exists()
    scores = LoadedCTranslate2(tmp_path, run).log_probabilities(sources, targets)
    records = run.recorder(["cross"]).record_references(sources, targets)
    for found, record in zip(scores, records, strict=True):
        np.testing.assert_allclose(found, record.token_log_probabilities, atol=2e-5)


def test_every_number_format_is_written_or_refused_in_a_sentence(tokenizer, tmp_path):
    run = random_run(tokenizer, tmp_path, norm="pre")
    sizes = {}
    for quantization in QUANTIZATIONS:
        folder = tmp_path / quantization
        folder.mkdir()
        if quantization == "bfloat16" and find_spec("torch") is None:
            with pytest.raises(InputError, match="bfloat16: CTranslate2 needs PyTorch"):
                write_ctranslate2(run, folder, quantization)
        else:
            write_ctranslate2(run, folder, quantization)
            assert ctranslate2.contains_model(str(folder))
            sizes[quantization] = (folder / "model.bin").stat().st_size
    assert sizes["int8"] < sizes["int16"] < sizes["float32"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"positions_on": "queries_and_keys"}, "model.positions_on"),
        ({"attention": {"cross": {"score": "cosine"}}}, "model.attention.cross.score"),
        ({"attention": {"encoder_self": {"mechanism": "linformer"}}}, "model.attention.encoder_self.mechanism"),
        ({"attention": {"decoder_self": {"key_dim": 4}}}, "model.attention.decoder_self.key_dim"),
        ({"attention": {"cross": {"value_projection": False}}}, "model.attention.cross.value_projection"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_counterpart_is_refused_by_name(tokenizer, tmp_path, settings, key):
    run = random_run(tokenizer, tmp_path, **settings)
    with pytest.raises(InputError, match=rf"{key}: CTranslate2 does not support .* \(the default\)"):
        write_ctranslate2(run, tmp_path / "model")
    assert not (tmp_path / "model").exists()
