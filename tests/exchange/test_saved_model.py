"""A SavedModel gives the texts, attention and links of its run, in a process that knows nothing of qkv."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry

from qkv.alignment.readout import AlignmentReadout
from qkv.decoding.build import build_search, build_translator
from qkv.errors import InputError
from qkv.exchange.parity import check_parity, comparable_searches
from qkv.text.lines.line import FORMAT_CHARACTERS, OTHER_SPACES, compose
from tests.support.documents import EXPORT
from tests.support.random_runs import random_run
from tests.support.text import SENTENCES
from tests.support.tiny_runs import ARCHITECTURES

pytest.importorskip("tensorflow_text")
from qkv.exchange import saved_model
from qkv.exchange.saved_model import LoadedSavedModel, SavedTranslator, write_saved_model
from qkv.inspection.recorder import pair_translations

pytestmark = pytest.mark.minutes

DECODING = {"beam_size": 3, "length_penalty": 0.5, "min_length": 2, "no_repeat_ngram": 3}
SOURCES = ["", "a ☃ cat", *SENTENCES, "chien " * 100]
TARGETS = ["der Hund", "", "le ☃ chat", *SENTENCES[:0:-1], "Hund " * 200]


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    run = random_run(tokenizer, folder, decoder_layers=2, positions_on="queries_and_keys")
    decoding = run.config.decoding.model_copy(update=DECODING)
    return replace(run, config=run.config.model_copy(update={"decoding": decoding}))


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    """A SavedModel. Each of its functions was traced once, and no function of a gradient is left of them."""
    folder, before = tmp_path_factory.mktemp("saved") / "model", set(gradient_registry._registry)
    with mock.patch.object(saved_model, "forced_pass", wraps=saved_model.forced_pass) as traced:
        write_saved_model(SavedTranslator(run, AlignmentReadout(1, 2, "input")), folder)
    assert traced.call_count == 2
    assert not {name for name in set(gradient_registry._registry) - before if name.startswith("CustomGradient-")}
    return folder


@pytest.fixture(scope="module")
def saved(folder):
    return tf.saved_model.load(str(folder))


def translator(run, kind):
    return build_translator(
        run.model, run.tokenizer, run.config, build_search(comparable_searches(run, {})[kind], seed=1)
    )


def as_numpy(answer):
    return {name: tensor.numpy() for name, tensor in answer.items()}


def test_the_outputs_of_functions_and_signatures_have_the_names_of_the_page(saved):
    page = EXPORT.read_text(encoding="utf-8")
    shared = {"source_tokens", "target_tokens", "log_probabilities", "cross_attention"}
    expected = {"translate": shared | {"text", "score", "truncated"}, "align": shared | {"links"}}
    expected["serving_default"] = expected["translate"]
    assert all(f"`{name}`" in page for names in expected.values() for name in names)
    assert {name: {*function.structured_outputs} for name, function in saved.signatures.items()} == expected
    assert {*saved.translate(tf.constant(SOURCES), tf.constant(False))} == expected["translate"]
    assert {*saved.align(tf.constant(SOURCES), tf.constant(SOURCES))} == expected["align"]


@pytest.mark.parametrize("beam", [False, True])
def test_sentences_are_translated_as_by_the_run_in_batches_of_any_size(run, saved, beam):
    expected = translator(run, "beam" if beam else "greedy").translate(SOURCES)
    answer = as_numpy(saved.translate(tf.constant(SOURCES), tf.constant(beam)))
    assert [text.decode() for text in answer["text"]] == [translation.text for translation in expected]
    assert answer["truncated"].tolist() == [translation.truncated for translation in expected]
    assert answer["truncated"][-1] and answer["text"][0] == b""
    for i, translation in enumerate(expected[1:], 1):
        tokens = [token.decode() for token in answer["target_tokens"][i] if token]
        assert tokens == run.tokenizer.pieces(translation.ids)
        np.testing.assert_allclose(
            answer["log_probabilities"][i, : len(tokens)], translation.log_probabilities, atol=1e-5
        )
        assert not answer["log_probabilities"][i, len(tokens) :].any()
        if beam:
            assert answer["score"][i] == pytest.approx(translation.score, abs=1e-5)
    alone = as_numpy(saved.translate(tf.constant(SOURCES[2:3]), tf.constant(beam)))
    assert alone["text"][0] == answer["text"][2]


def test_strings_are_read_as_lines_of_files_are(run, saved):
    unseen = ["\t", "\xa0", "\u3000", "\u2028", "\u200b", "\ufeff", "\x85", " \u200e "]
    answer = as_numpy(saved.translate(tf.constant([*unseen, "E\u0301va", "Éva", b"a \xff cat"]), tf.constant(False)))
    assert answer["text"][: len(unseen)].tolist() == [b""] * len(unseen)
    decomposed, composed, _ = answer["source_tokens"][len(unseen) :].tolist()
    assert decomposed == composed and b"<unk>" not in composed


def test_invisible_characters_are_read_as_by_the_run(run, saved):
    texts = [f"a {character}c{character}at" for character in (*FORMAT_CHARACTERS[:400], *OTHER_SPACES)]
    texts += ["the c\xadat\xa0sees\rit", "e\u200d\u0301t\xade\u0301", "\u3164", "a\xad cat"]
    answer = as_numpy(saved.translate(tf.constant(texts), tf.constant(False)))
    for tokens, ids in zip(answer["source_tokens"].tolist(), run.tokenizer.encode(map(compose, texts)), strict=True):
        assert [token.decode() for token in tokens if token] == [*run.tokenizer.pieces(ids), "</s>"]


def test_attention_is_that_of_the_archive_and_zero_for_padding(run, saved):
    answer = as_numpy(saved.translate(tf.constant(SOURCES), tf.constant(True)))
    translations = translator(run, "beam").translate(SOURCES)
    records = run.recorder(["cross"]).record(pair_translations(SOURCES, None, translations, "beam"))
    for i, record in enumerate(records):
        if not SOURCES[i]:
            continue
        expected = record.attention["cross"]
        queries, keys = expected.shape[2:]
        assert queries != keys
        weights = answer["cross_attention"][i]
        np.testing.assert_allclose(weights[:, :, :queries, :keys], expected, atol=1e-5)
        assert not weights[:, :, queries:].any() and not weights[:, :, :, keys:].any()
        assert [token.decode() for token in answer["source_tokens"][i] if token] == record.source_tokens


@pytest.mark.parametrize("readout", [AlignmentReadout(1, 2, "input"), AlignmentReadout(0, "mean", "output")])
def test_links_and_probabilities_are_those_of_the_run(run, saved, readout):
    if readout.head == "mean":
        saved = SavedTranslator(run, readout)
    answer = as_numpy(saved.align(tf.constant(SOURCES), tf.constant(TARGETS)))
    for i, record in enumerate(run.recorder(["cross"]).record_references(SOURCES, TARGETS)):
        links = {(int(source), target) for target, source in enumerate(answer["links"][i]) if source >= 0}
        assert links == readout.links(record.by_token())
        length = len(record.target_output_tokens)
        expected = record.token_log_probabilities
        np.testing.assert_allclose(answer["log_probabilities"][i, :length], expected, atol=1e-5)


def test_pairs_that_programs_cut_in_their_own_way_are_not_compared(run, monkeypatch):
    class Exported:
        fixed_decoding: ClassVar = {}

        def translate(self, sources, decoding, longest):
            return [*sources]

        def log_probabilities(self, sources, targets):
            assert (sources, targets) == (["a cat"], ["ein Hund"])
            return [np.array(next(run.recorder(["cross"]).record_references(sources, targets)).token_log_probabilities)]

    translations = [SimpleNamespace(text="Hund " * 200), SimpleNamespace(text="ein Hund")]
    translator = SimpleNamespace(translate=lambda sources: translations)
    monkeypatch.setattr("qkv.exchange.parity.build_translator", lambda *settings: translator)
    assert (
        check_parity(run, Exported(), ["the dog", "a cat"], exact=True)["largest_difference_of_log_probabilities"] == 0
    )


def test_a_process_with_tensorflow_and_its_text_alone_loads_it(run, folder, saved):
    script = "import sys; sys.path.remove(''); import tensorflow as tf, tensorflow_text; "
    script += f"saved = tf.saved_model.load({str(folder)!r}); "
    script += f"answer = saved.signatures['serving_default'](source=tf.constant({SOURCES!r}), beam=tf.constant(True)); "
    script += "print([text.decode() for text in answer['text'].numpy()]); "
    script += "assert not any(name.startswith('qkv') for name in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    loaded = LoadedSavedModel(folder).translate(SOURCES, comparable_searches(run, {})["beam"], longest=0)
    assert ended.stdout.splitlines()[-1] == repr(loaded)


def test_links_that_need_more_than_a_row_of_weights_are_refused(run):
    with pytest.raises(InputError, match="--at: expected LAYER,HEAD,SIDE, because a SavedModel"):
        SavedTranslator(run, AlignmentReadout(0, 0, "input", "mutual"))


def test_a_model_without_cross_attention_is_exported_and_links_nothing(tokenizer, tmp_path):
    run = random_run(tokenizer, tmp_path, ARCHITECTURES["context_vector"])
    (run.directory.root / "tokenizer").mkdir(parents=True)
    translator = SavedTranslator(run, None)
    answer = as_numpy(translator.align(tf.constant(SOURCES), tf.constant(TARGETS)))
    assert answer["cross_attention"].shape[:3] == (len(SOURCES), 0, 1) and (answer["links"] == -1).all()
    write_saved_model(translator, tmp_path / "saved")
