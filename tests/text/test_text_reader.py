"""The reader of a run: from text that users write to ids, and back to plain text."""

import pytest

from qkv.config.data import DataSettings
from qkv.files.run_directory import RunDirectory
from qkv.text.text_reader import TextReader
from tests.support.text import measure_look


@pytest.fixture
def reader(tokenizer, tmp_path):
    """A reader whose training text has spaces before punctuation and capitals only in names."""
    directory = RunDirectory(tmp_path)
    for path in (directory.source_look, directory.target_look):
        measure_look(["the cat sleeps .", "the dog of Jane eats ."], tokenized=True).write(path)
    data = DataSettings(
        source_language="en",
        target_language="fr",
        train={"source": "a", "target": "b"},
        validation=None,
        tokenized=True,
        normalize={"lowercase": True, "moses": True},
    )
    return TextReader(directory, data, tokenizer, max_tokens=20)


def test_a_sentence_is_read_as_the_training_text_is_written(reader, tokenizer):
    texts, ids = reader.read(["The cat sleeps."])
    assert texts == ["the cat sleeps ."] and ids == tokenizer.encode(texts)
    assert reader.read_line("The cat sleeps.", "text") == texts[0]
    assert reader.describe_difference("The cat sleeps.", texts[0]) == "the vocabulary has no '.'"
    assert reader.describe_difference("The cat", "the cat") is None


def test_a_text_may_be_read_without_normalising_and_without_a_style(reader, tmp_path):
    line = "The cat sleeps."
    assert reader.typed_text("my.en", normalizes=False).read([line])[0] == [line]
    imported = TextReader(RunDirectory(tmp_path / "imported"), reader.data, reader.tokenizer, 20)
    assert imported.make_normalizer() is None and imported.read([line])[0] == [line]


def test_paragraphs_are_split_and_their_sentences_read(reader):
    lines = ["The cat sleeps.  The dog eats.", "", "the dog"]
    text = reader.typed_text("my.en", splits=True).read_paragraphs(lines, range(1, 4))
    assert [len(paragraph.sentences) for paragraph in text.paragraphs] == [2, 1, 1]
    assert text.texts == ["the cat sleeps .", "the dog eats .", "", "the dog"] and len(text.ids) == 4
    whole = reader.typed_text("my.en").read_paragraphs(lines, range(1, 4))
    assert [paragraph.sentences for paragraph in whole.paragraphs] == [[line] for line in lines]
    assert reader.split("The cat sleeps.\u200b\nThe dog eats.").spaces == ["\n"]


def test_a_translation_becomes_plain_text(reader):
    assert reader.detokenize("le chat dort .") == "Le chat dort."
