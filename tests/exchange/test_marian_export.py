"""A run as a Marian folder, and back: the same ids, probabilities and attention, and the same arrays once more."""

import json
from dataclasses import replace

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.exchange.marian_export import write_marian
from qkv.exchange.marian_import import import_marian
from qkv.run.trained_run import load_run
from tests.support.marian import GOLDEN_PAIRS, MARIAN, arrays_of
from tests.support.random_runs import random_run
from tests.support.text import SENTENCES

SOURCES = SENTENCES[:4]
TARGETS = ["le chat", "un petit chien voit le chat à côté du chien", "der ☃ Hund", ""]


@pytest.mark.parametrize(
    "settings",
    [
        {"positions": "sinusoidal", "activation": "relu"},
        {"positions": "sinusoidal_halves", "activation": "gelu", "output_bias": True, "scale_embeddings": False},
        {"positions": "sinusoidal", "activation": "silu", "d_model": 15, "output_bias": True},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_an_exported_run_that_is_imported_again_computes_the_same(tokenizer, tmp_path, settings):
    run = random_run(tokenizer, tmp_path, norm="post", encoder_layers=2, **settings)
    folder, again = tmp_path / "folder", tmp_path / "again"
    for path in (folder, again):
        path.mkdir()
    write_marian(run, folder)
    import_marian(folder, tmp_path / "imported", {})
    imported = load_run(tmp_path / "imported")
    assert imported.tokenizer.vocabulary_size == tokenizer.vocabulary_size
    assert imported.tokenizer.encode(SOURCES) == tokenizer.encode(SOURCES)
    records = [
        list(exported_run.recorder(["cross", "encoder"]).record_references(SOURCES, TARGETS))
        for exported_run in (run, imported)
    ]
    for ours, theirs in zip(*records, strict=True):
        assert ours.target_output_tokens == theirs.target_output_tokens
        np.testing.assert_allclose(ours.token_log_probabilities, theirs.token_log_probabilities, atol=1e-5)
        for site, weights in ours.attention.items():
            np.testing.assert_allclose(weights, theirs.attention[site], atol=1e-6)
    # What was imported, exported once more, is the same bit for bit.
    write_marian(replace(imported, tokenizer=tokenizer), again)
    expected = arrays_of(folder)
    arrays = arrays_of(again)
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_an_imported_model_goes_back_with_its_two_subword_models_and_its_numbers(run, tmp_path):
    write_marian(run, tmp_path)
    for side in ("source", "target"):
        assert (tmp_path / f"{side}.spm").read_bytes() == (MARIAN / f"{side}.spm").read_bytes()
    import_marian(tmp_path, tmp_path / "again", {})
    again = load_run(tmp_path / "again")
    sources, targets = GOLDEN_PAIRS
    assert again.tokenizer.encode(sources) == run.tokenizer.encode(sources)
    assert again.tokenizer.of_target.encode(targets) == run.tokenizer.of_target.encode(targets)
    assert run.tokenizer.of_target.encode(targets) != run.tokenizer.encode(targets)
    records = [list(either.recorder(["cross"]).record_references(sources, targets)) for either in (run, again)]
    for before, after in zip(*records, strict=True):
        np.testing.assert_allclose(before.token_log_probabilities, after.token_log_probabilities, atol=1e-5)
        np.testing.assert_allclose(before.attention["cross"], after.attention["cross"], atol=1e-6)
    decoding = run.config.decoding.model_dump(exclude={"max_target_extra"})
    assert again.config.decoding.model_dump(exclude={"max_target_extra"}) == decoding


def test_the_folder_says_what_the_run_is(tokenizer, tmp_path):
    run = random_run(tokenizer, tmp_path, norm="post", encoder_layers=2)
    decoding = run.config.decoding.model_copy(update={"beam_size": 3, "min_length": 2, "force_eos": True})
    write_marian(replace(run, config=run.config.model_copy(update={"decoding": decoding})), tmp_path)
    config, generation, pieces, names = (
        json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "generation_config", "vocab", "tokenizer_config")
    )
    assert (config["encoder_layers"], config["decoder_layers"], config["vocab_size"]) == (2, 1, len(pieces))
    assert (generation["num_beams"], generation["min_length"], generation["forced_eos_token_id"]) == (3, 3, 3)
    assert (names["source_lang"], names["target_lang"]) == ("en", "fr")
    assert (tmp_path / "source.spm").read_bytes() == (tmp_path / "target.spm").read_bytes() == tokenizer.model
    imported, _ = import_marian(tmp_path, tmp_path / "imported", {})
    names = ("beam_size", "min_length", "force_eos", "length_penalty", "no_repeat_ngram")
    assert all(getattr(imported.decoding, name) == getattr(decoding, name) for name in names)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"norm": "pre"}, "model.norm"),
        ({"norm": "post", "positions": "learned"}, "model.positions"),
        ({"norm": "post", "tie_embeddings": "target"}, "model.tie_embeddings"),
        ({"norm": "post", "attention": {"cross": {"score": "additive"}}}, "model.attention.cross.score"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(tokenizer, tmp_path, settings, key):
    with pytest.raises(InputError, match=f"{key}: Marian does not support"):
        write_marian(random_run(tokenizer, tmp_path, **settings), tmp_path / "folder")
