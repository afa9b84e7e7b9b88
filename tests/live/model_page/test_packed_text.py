"""SentencePiece and the normalisation of typed text in JavaScript give what the libraries give, on hostile lines."""

import random
from dataclasses import replace

import pytest

from qkv.config import RunConfig
from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.live.model_page import pack_normalizer, pack_tokenizer
from qkv.text.lines.line import FORMAT_CHARACTERS, OTHER_SPACES, as_line
from qkv.text.lines.typed_line import describe_unread
from qkv.text.tokens.run_tokenizer import train_tokenizer
from qkv.text.tokens.subword_models import SentencePieceModel
from qkv.text.tokens.tokenizer import Tokenizer
from tests.support.random_runs import random_run
from tests.support.text import MARKS, ODD, SENTENCES, lines_with, measure_look


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("repeated", [False, True])
def test_subwords_are_those_of_the_library(engine, tokenizers, tmp_path, kind, repeated):
    """The ids, where they end in the text, and the text that any ids spell; also where parts are equally good, of which
    TensorFlow Text takes others than SentencePiece itself."""
    tokenizer = tokenizers[kind]
    if repeated:
        chance = random.Random(5)
        words = ["".join(chance.choices(["aa", "a", "b", "bc"], k=1 + i % 6)) for i in range(360)]
        text = [" ".join(words[place : place + 6]) for place in range(0, len(words), 6)]
        train_tokenizer(text, tmp_path / "model", kind=kind, vocabulary_size=20, character_coverage=1.0)
        tokenizer = Tokenizer(tmp_path / "model")
    lines = ["a" * i + "b" * j + "a" * i for i in range(12) for j in range(5)] if repeated else []
    lines += [*lines_with(ODD, seed=1), "", "   ", "x" * 5000, ("le chat noir " * 400)[:5000]]
    chance = random.Random(2)
    rows = [[chance.randrange(tokenizer.vocabulary_size) for _ in range(chance.randrange(12))] for _ in range(200)]
    result = engine.evaluate(
        """({model, lines, rows}) => {
          const subwords = new SubwordModel(model);
          const texts = rows.map((row) => subwords.decode(row));
          return { encoded: lines.map((line) => subwords.encode(line)), texts };
        }""",
        {"model": pack_tokenizer(random_run(tokenizer, tmp_path)), "lines": lines, "rows": rows},
    )
    library = SentencePieceModel(tokenizer.model) if repeated else tokenizer._subwords
    pairs = zip(library.encode(lines), library.ends(lines), strict=True)
    for line, tokens, (ids, places) in zip(lines, result["encoded"], pairs, strict=True):
        assert (tokens["ids"], tokens["ends"]) == (ids, places), repr(line[:200])
    assert result["texts"] == tokenizer.decode(rows)


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    return random_run(tokenizer, tmp_path_factory.mktemp("run"))


def normalizing(run, folder, language, sentences, **settings):
    """That run as one that normalises typed text, whose training text was these sentences."""
    directory = RunDirectory(folder)
    directory.source_look.parent.mkdir(parents=True)
    measure_look(sentences, tokenized=True).write(directory.source_look)
    values = run.config.model_dump()
    values["data"] |= {"source_language": language, "normalize": settings}
    return replace(run, directory=directory, config=RunConfig.model_validate(values))


@pytest.mark.parametrize(
    ("language", "settings"),
    [
        ("en", {"lowercase": True, "moses": True}),
        ("fr", {"lowercase": True, "moses": True}),
        ("de", {"moses": True}),
        ("en", {"lowercase": True}),
    ],
    ids=str,
)
def test_typed_text_is_normalised_as_by_the_run(engine, run, tmp_path, language, settings):
    names = [*SENTENCES, "the dog of Mr. Éva 's &apos; town", "a cat"]  # with capitals inside sentences
    lines = [*lines_with(MARKS, seed=3), "The dog 's cat, &apos; 's.", "'s  Éva 's"]
    for number, sentences in enumerate((names, [line.lower() for line in SENTENCES], ["A cat .", "The dog ."])):
        changed = normalizing(run, tmp_path / str(number), language, sentences, **settings)
        found = engine.evaluate(
            "([rules, unread, lines]) => lines.map(typedText(rules, unread))",
            [pack_normalizer(changed), pack_tokenizer(run)["unread"], lines],
        )
        normalize = changed.reader.make_normalizer()
        for line, ours in zip(lines, found, strict=True):
            assert ours == normalize(as_line(line.replace("\n", " "), "")), repr(line)


def test_text_is_composed_and_otherwise_left_alone_where_the_run_leaves_it(engine, run):
    assert pack_normalizer(run) is None
    unread = pack_tokenizer(run)["unread"]
    assert engine.evaluate("(unread) => typedText(null, unread)('E\u0301va\\n Dog.')", unread) == "Éva  Dog."


def test_invisible_characters_are_read_in_the_page_as_by_the_run(engine, run):
    lines = [*lines_with([*FORMAT_CHARACTERS[1:], *OTHER_SPACES], seed=4), "e\u200d\u0301", "", "\xad", " a\xad b"]
    unread = pack_tokenizer(run)["unread"]
    lines_read = engine.evaluate("([unread, lines]) => lines.map(typedText(null, unread))", [unread, lines])
    assert lines_read == [run.tokenizer.as_read(as_line(line.replace("\n", " "), "")) for line in lines]
    descriptions = engine.evaluate(
        "([unread, lines]) => lines.map((line) => describeUnread(line, unread))", [unread, lines]
    )
    assert descriptions == [describe_unread(line.replace("\n", " "), run.tokenizer) or None for line in lines]
    with pytest.raises(Exception, match="the text has a NUL character"):
        engine.evaluate("(unread) => typedText(null, unread)('a\\0b')", unread)


@pytest.mark.parametrize("text", ["", " ", "\t", "\u00a0", "\u3000", "\u2028", "\u200b", "\ufeff", "\u0085", "\0"])
def test_a_line_without_anything_to_be_seen_has_no_tokens_in_the_page(engine, run, text):
    encoded = engine.evaluate("([model, text]) => new SubwordModel(model).encode(text)", [pack_tokenizer(run), text])
    assert encoded == {"ids": [], "ends": []}


def test_a_tokenizer_of_another_program_is_refused(run, tmp_path):
    imported = RunDirectory(tmp_path)
    imported.given_tokenizer.parent.mkdir()
    imported.given_tokenizer.touch()
    with pytest.raises(InputError, match="does not support the tokenizer of an imported run"):
        pack_tokenizer(replace(run, directory=imported))
