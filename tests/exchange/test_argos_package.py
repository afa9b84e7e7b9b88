"""Packages of Argos Translate: their form, and the same tokens, numbers and texts as the run's, read as Argos does."""

import json
from dataclasses import replace
from zipfile import ZipFile

import ctranslate2
import numpy as np
import pytest
import sentencepiece

from qkv.exchange.argos_package import LoadedArgos, write_argos
from qkv.exchange.ctranslate2_model import TOKENIZER_FILE, write_ctranslate2
from qkv.text.lines.line import FORMAT_CHARACTERS, OTHER_SPACES, compose
from qkv.text.tokens.run_tokenizer import train_tokenizer
from qkv.text.tokens.special_tokens import EOS
from qkv.text.tokens.tokenizer import Tokenizer
from tests.support.random_runs import random_run
from tests.support.text import SENTENCES

NAME = "translate-en_fr-1_0"
TYPED = [
    *SENTENCES,
    *(
        "le chien\u00a0voit",
        "le\u200b cha\u00adt",
        "\ufeffa co\u0302te\u0301",
        "cat\tdog\u2003dog",
        "a ☃ cat ☃",
        "  a  cat ",
    ),
    *("a\u0323\u0302\u0301 \u0301", "a\u0302\u0323 \u212b \u1ea1\u0302", "", " ", "\u200b", "</s> <s> <2fr> _ ▁"),
    " ".join(f"a{character}c" for character in (FORMAT_CHARACTERS + OTHER_SPACES).replace("\0", "")),
]
"""Text that people type: with decomposed accents, invisible characters, other spaces and unknown characters."""


def installed(package, folder):
    """The folder of the package after `argostranslate.package.install_from_path`."""
    with ZipFile(package) as archive:
        archive.extractall(folder)
    return folder / NAME


def argos(content, sentences):
    """What `apply_packaged_translation` of argostranslate 1.11 does with each sentence."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(content / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(content / "model"), compute_type="default")
    for sentence in sentences:
        (found,) = translator.translate_batch(
            [processor.encode(sentence, out_type=str)],
            target_prefix=None,
            replace_unknowns=True,
            max_batch_size=32,
            batch_type="tokens",
            beam_size=4,
            num_hypotheses=1,
            length_penalty=0.2,
            return_scores=True,
        )
        yield processor.decode_pieces(found.hypotheses[0]).replace("▁", " ").replace("_", " ").removeprefix(" ")


def test_a_package_has_the_files_that_argos_reads_and_is_equal_when_it_is_written_again(tokenizer, tmp_path):
    run = random_run(tokenizer, tmp_path)
    (tmp_path / "README.md").write_text("# English to French\n", encoding="utf-8")
    package = write_argos(run, tmp_path, "int8")
    assert package == tmp_path / f"{NAME}.argosmodel"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", package.name]
    content = installed(package, tmp_path / "packages")
    assert [path.name for path in (tmp_path / "packages").iterdir()] == [NAME]
    assert (content / "README.md").read_text(encoding="utf-8") == "# English to French\n"
    metadata = json.loads((content / "metadata.json").read_text(encoding="ascii"))
    assert [metadata[key] for key in ("type", "from_code", "from_name", "to_code", "to_name")] == [
        *("translate", "en", "English", "fr", "French")
    ]
    assert ctranslate2.contains_model(str(content / "model"))
    written = package.read_bytes()
    assert write_argos(run, tmp_path, "int8").read_bytes() == written


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_typed_text_has_the_tokens_that_the_run_reads(tokenizers, tmp_path, kind):
    """Composed accents are in this vocabulary, and no invisible character."""
    run = random_run(tokenizers[kind], tmp_path)
    content = installed(write_argos(run, tmp_path), tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(content / TOKENIZER_FILE))
    expected = tokenizers[kind].encode([compose(text) for text in TYPED])
    assert processor.encode(TYPED) == expected
    plain = sentencepiece.SentencePieceProcessor(model_proto=tokenizers[kind].model)
    assert sum(before == after for before, after in zip(plain.encode(TYPED), expected, strict=True)) < len(TYPED) - 3


def test_the_texts_are_those_of_ctranslate2_with_the_same_search(tokenizer, tmp_path):
    run = random_run(tokenizer, tmp_path, max_positions=300, encoder_layers=2, norm="post", output_bias=True)
    bias = run.model.target_embedding.bias
    bias.assign(np.array(bias) + 3 * np.eye(bias.shape[0])[EOS])  # or it would never end
    (tmp_path / "ct2").mkdir()
    write_ctranslate2(run, tmp_path / "ct2")
    translator = ctranslate2.Translator(str(tmp_path / "ct2"))
    sentences = [*SENTENCES[:4], "a ☃ cat"]
    ids = {piece: token for token, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary_size)))}
    pieces = [tokenizer.pieces(row) for row in tokenizer.encode(sentences)]
    results = translator.translate_batch(pieces, beam_size=4, length_penalty=0.2, replace_unknowns=False)
    content = installed(write_argos(run, tmp_path), tmp_path)
    for sentence, result, text in zip(sentences, results, argos(content, sentences), strict=True):
        if "<unk>" not in result.hypotheses[0]:
            assert text == tokenizer.decode([[ids[piece] for piece in result.hypotheses[0]]])[0]
        assert "⁇" not in text, sentence  # a source word stands in the place of an unknown token


def test_a_tag_is_put_before_every_source_and_the_numbers_are_the_runs(tmp_path):
    train_tokenizer(
        SENTENCES, tmp_path / "model", kind="bpe", vocabulary_size=80, character_coverage=1.0, tags=["<2fr>"]
    )
    tokenizer = Tokenizer(tmp_path / "model").with_tag("<2fr>")
    run = random_run(tokenizer, tmp_path, decoder_layers=2, positions="learned")
    targets = ["le chat", "un petit chien voit le chat à côté du chien", "der Hund"]
    tagged, untagged = (
        LoadedArgos(write_argos(each, tmp_path)).log_probabilities(SENTENCES[:3], targets)
        for each in (run, replace(run, tokenizer=tokenizer.with_tag(None)))
    )
    records = run.recorder(["cross"]).record_references(SENTENCES[:3], targets)
    for found, record, without in zip(tagged, records, untagged, strict=True):
        np.testing.assert_allclose(found, record.token_log_probabilities, atol=2e-5)
        assert np.abs(found - without).max() > 1e-3


def test_a_sentence_longer_than_the_run_reads_is_scored_as_by_a_run_of_more_positions(tokenizer, tmp_path):
    long = (["chien " * 400], ["a dog " * 100])
    scores = []
    for positions in (64, 1024):
        (tmp_path / f"{positions}").mkdir()
        run = random_run(tokenizer, tmp_path / f"{positions}", max_positions=positions)
        scores += LoadedArgos(write_argos(run, tmp_path)).log_probabilities(*long)
    assert len(scores[0]) > 64
    np.testing.assert_array_equal(*scores)


def test_a_run_of_another_program_keeps_the_normalisation_of_its_tokenizer(tokenizer, tmp_path):
    run = random_run(tokenizer, tmp_path)
    given = run.config.tokenizer.model_copy(update={"kind": "given"})
    run = replace(run, config=run.config.model_copy(update={"tokenizer": given}))
    assert (installed(write_argos(run, tmp_path), tmp_path) / TOKENIZER_FILE).read_bytes() == tokenizer.model
