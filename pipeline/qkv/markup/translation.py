"""Translates texts with markup: the model reads plain text, and each translation gets the markup of its source."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..run.ensemble import TrainedEnsemble
from ..text.lines.sentences import Paragraph
from ..text.lines.typed_line import ReadParagraphs, TypedText
from ..text.tokens.special_tokens import UNK
from . import html_text, placeholders
from .marked_text import Layout, MarkedText, lay_out
from .projection import LinkedText, link_texts

if TYPE_CHECKING:
    from ..decoding.translator import Translation
    from ..run.trained_run import TrainedRun
    from ..text.phrases.required import RequiredPhrase

READERS: dict[str, Callable[[str], MarkedText]] = {"html": html_text.read_line, "placeholders": placeholders.read_line}
"""The function that reads a line, by the kind of markup."""


def translate_marked(run: "TrainedRun", texts: Sequence[str], markup: str) -> list[str]:
    """Translates texts with markup, and returns the best translation of each, with its markup.

    Args:
        run: the run.
        texts: the texts. Each is one sentence for `html` and `placeholders`, and a whole document for `html-page`.
        markup: `html`, `placeholders` or `html-page`, see `translate_page`.

    Raises:
        InputError: the model has no cross-attention or gives NaN; or a text has a lone surrogate.
    """
    if markup == "html-page":
        return [translate_page(run, text)[0] for text in texts]
    window = read_marked_lines(run, run.reader.typed_text("sentence"), markup, texts, range(1, len(texts) + 1))
    return [n_best[0] for n_best in translate_window(run, window).texts]


def translate_page(
    run: "TrainedRun", page: str, name: str = "page", normalizes: bool = True
) -> "tuple[str, MarkedTranslations]":
    """Translates an HTML page, or a part of one.

    The page is divided into texts at the tags of block elements, and each text into sentences if sentencex is
    installed. The rest of the page is unchanged, character by character. But the `lang` of its `<html>` tag becomes the
    target language if it is the source language.

    Args:
        run: the run.
        page: the page.
        name: the name of the page in messages.
        normalizes: whether `data.normalize` of the run is applied.

    Returns:
        The translated page, and the translations of its texts.

    Raises:
        InputError: the model has no cross-attention or gives NaN; or the page has a lone surrogate.
    """
    data = run.config.data
    texts = html_text.read_page(html_text.set_language(page, data.source_language, data.target_language))
    lines = accumulate((_count_lines(text) for text in texts), initial=1)
    filled = {number: text for number, text in enumerate(texts) if text.pieces}
    numbers = [line for text, line in zip(texts, lines, strict=False) if text.pieces]
    reader = run.reader.typed_text(name, normalizes=normalizes, splits=find_spec("sentencex") is not None)
    translated = translate_window(run, read_marked(run, reader, list(filled.values()), numbers))
    parts = [text.before for text in texts]
    for number, marked in zip(filled, translated.texts, strict=True):
        parts[number] = marked[0]
    return "".join(parts), translated


def _count_lines(text: MarkedText) -> int:
    """Returns the number of line feeds in the source of a text."""
    return sum(part.count("\n") for part in (text.before, *(piece.raw for piece in text.pieces), text.after))


class MarkedWindow(NamedTuple):
    """Texts with markup that are translated together.

    - layouts: the plain text of each text, and the marks in it.
    - read: the plain texts as the model reads them.
    - normalizes: whether `data.normalize` of the run is applied to them.
    """

    layouts: list[Layout]
    read: ReadParagraphs
    normalizes: bool


class MarkedTranslations(NamedTuple):
    """The translations of a `MarkedWindow`.

    - read: the plain texts as the model has read them, without kept text that it could not copy.
    - n_bests: the n-best list of each sentence of each text.
    - texts: the translations of each text, with markup. They are those of the n-best list; but for a text of several
      sentences, there is one translation, of the best translations of the sentences.
    """

    read: ReadParagraphs
    n_bests: "list[list[Translation]]"
    texts: list[list[str]]


def read_marked_lines(
    run: "TrainedRun", reader: TypedText, markup: str, lines: Sequence[str], numbers: Sequence[int]
) -> MarkedWindow:
    """Reads lines with markup, a key of `READERS`; see `read_marked`."""
    return read_marked(run, reader, list(map(READERS[markup], lines)), numbers)


def read_marked(
    run: "TrainedRun", reader: TypedText, texts: Sequence[MarkedText], numbers: Sequence[int]
) -> MarkedWindow:
    """Reads texts with markup, so that they can be translated. Warnings are those of the reader.

    The model reads kept text that it knows. For an unknown character it would write anything.

    Args:
        run: the run.
        reader: reads plain texts. It divides them into sentences if it has a splitter.
        texts: the texts.
        numbers: the number of the line of each text, for messages.
    """
    kept = [piece.text for text in texts for piece in text.pieces if piece.kind == "kept"]
    known = {words for words, ids in zip(kept, run.tokenizer.encode(kept), strict=True) if ids and UNK not in ids}
    layouts = []
    for text in texts:
        pieces = enumerate(text.pieces)
        shown = {index: piece.text for index, piece in pieces if piece.kind == "kept" and piece.text in known}
        layouts.append(lay_out(text, shown))
    plain = [layout.plain for layout in layouts]
    read = reader.read_paragraphs(plain, numbers)
    return MarkedWindow(layouts, read, reader.normalize is not None)


class _Text(NamedTuple):
    """A text of a window, in progress.

    - layout: its plain text.
    - paragraph: the sentences of the plain text.
    - read: the sentences as the model reads them.
    - ids: the ids of the sentences.
    - n_bests: the n-best list of each sentence.
    - translations: the plain translations of the text, see `_join_translations`; empty before it is translated.
    """

    layout: Layout
    paragraph: Paragraph
    read: list[str]
    ids: list[list[int]]
    n_bests: "list[list[Translation]]"
    translations: list[tuple[str, list[str]]]


def translate_window(
    run: "TrainedRun",
    window: MarkedWindow,
    prefix_ids: list[list[int]] | None = None,
    required: "list[list[RequiredPhrase]] | None" = None,
) -> MarkedTranslations:
    """Translates texts with markup.

    If a translation does not have a kept text as often as the source, the text is translated again without it, and it
    is put where word links say. So each kept text is in the translation once.

    Args:
        run: the run.
        window: the texts.
        prefix_ids: see `Translator.translate_ids`. Each text must be one sentence.
        required: see `Translator.translate_ids`. Each text must be one sentence.

    Raises:
        InputError: the model has no cross-attention or gives NaN; or no translation meets all constraints.
    """
    sentences = zip(window.read.texts, window.read.ids, strict=True)
    texts: list[_Text] = []
    for layout, paragraph in zip(window.layouts, window.read.paragraphs, strict=True):
        pairs = [next(sentences) for _ in paragraph.sentences]
        texts.append(_Text(layout, paragraph, [text for text, _ in pairs], [ids for _, ids in pairs], [], []))
    pending = list(range(len(texts)))
    is_first = True
    while pending:
        rows = [ids for index in pending for ids in texts[index].ids]
        prefixes = prefix_ids and [prefix_ids[index] for index in pending]
        phrases = required and [required[index] for index in pending]
        n_bests = iter(run.translator.translate_ids(rows, prefixes, phrases))
        missing: list[int] = []
        for index in pending:
            text = texts[index]
            text = text._replace(n_bests=[next(n_bests) for _ in text.ids])
            texts[index] = text = text._replace(translations=_join_translations(run, text.paragraph, text.n_bests))
            copies = [text.layout.find_copies(translation) for translation, _ in text.translations]
            copied = [number for number in text.layout.shown if all(number in places for places in copies)]
            if len(copied) < len(text.layout.shown):
                shown = {number: text.layout.shown[number] for number in copied} if is_first else {}
                texts[index] = _lay_out_again(run, text, shown, window.normalizes)
                missing.append(index)
        pending = missing
        is_first = False
    read = ReadParagraphs(
        [text.paragraph for text in texts],
        [sentence for text in texts for sentence in text.read],
        [ids for text in texts for ids in text.ids],
    )
    return MarkedTranslations(read, [n_best for text in texts for n_best in text.n_bests], _restore(run, texts))


def _lay_out_again(run: "TrainedRun", text: _Text, shown: dict[int, str], normalizes: bool) -> _Text:
    """Returns a text with other kept text in its plain text, without warnings."""
    layout = lay_out(text.layout.source, shown)
    paragraph = Paragraph([layout.plain], [])
    if len(text.paragraph.sentences) > 1:
        paragraph = run.reader.splitter(run.tokenizer.without_format_characters(layout.plain))
    normalize = run.reader.make_normalizer() if normalizes else None
    read = list(map(normalize or run.tokenizer.as_read, paragraph.sentences))
    return _Text(layout, paragraph, read, run.tokenizer.encode(read), [], [])


def _join_translations(
    run: "TrainedRun", paragraph: Paragraph, n_bests: "Sequence[Sequence[Translation]]"
) -> list[tuple[str, list[str]]]:
    """Returns the plain translations of a text, each with the translations of its sentences.

    Args:
        run: the run.
        paragraph: the sentences of the text.
        n_bests: the n-best list of each sentence.
    """
    if len(n_bests) == 1:
        texts = [_as_plain(run, paragraph.sentences[0], translation.text) for translation in n_bests[0]]
        return [(text, [text]) for text in texts]
    pairs = zip(paragraph.sentences, n_bests, strict=True)
    parts = [_as_plain(run, sentence, n_best[0].text) for sentence, n_best in pairs]
    return [(paragraph.join(parts), parts)]


def _as_plain(run: "TrainedRun", source: str, translation: str) -> str:
    """Returns a translation as plain text, since the text between tags is for readers.

    It begins with a capital only if the source does not begin with a small letter.
    """
    text = " ".join(translation.split())
    if not run.config.data.tokenized:
        return text
    plain = run.reader.detokenize(text)
    return text[:1] + plain[1:] if source[:1].islower() and plain[:1].lower() == text[:1] else plain


def _restore(run: "TrainedRun", texts: Sequence[_Text]) -> list[list[str]]:
    """Returns the translations of texts with their markup."""
    linking_run = next(iter(run.members.values())) if isinstance(run, TrainedEnsemble) else run
    pairs = [
        (text.paragraph.sentences[index], part)
        for text in texts
        if text.layout.needs_links
        for _, parts in text.translations
        for index, part in enumerate(parts)
    ]
    linked = link_texts(linking_run, [source for source, _ in pairs], [target for _, target in pairs]) if pairs else iter(())
    results: list[list[str]] = []
    for text in texts:
        marked = []
        for translation, parts in text.translations:
            if text.layout.needs_links:
                links = _join_links(text.layout.plain, text.paragraph, parts, linked)
            else:
                links = LinkedText([(0, len(text.layout.plain))], [(0, len(translation))], np.ones((1, 1)))
            marked.append(text.layout.restore(translation, links, text.layout.find_copies(translation)))
        results.append(marked)
    return results


def _join_links(plain: str, paragraph: Paragraph, parts: Sequence[str], linked: Iterator[LinkedText]) -> LinkedText:
    """Returns the links of a text, of those of its sentences.

    Args:
        plain: the plain text.
        paragraph: its sentences.
        parts: the translation of each sentence.
        linked: the links of these sentences, and of later ones, which are not consumed.
    """
    links = [next(linked) for _ in parts]
    if len(links) == 1:
        return links[0]
    source: list[tuple[int, int]] = []
    target: list[tuple[int, int]] = []
    probabilities = np.zeros([sum(sizes) for sizes in zip(*(link.probabilities.shape for link in links), strict=True)])
    source_start = target_start = 0
    for sentence, part, space, link in zip(paragraph.sentences, parts, [*paragraph.spaces, ""], links, strict=True):
        source_start = max(source_start, plain.find(sentence, source_start))
        rows, columns = slice(len(target), len(target) + len(link.target)), slice(len(source), len(source) + len(link.source))
        probabilities[rows, columns] = link.probabilities
        source += [(start + source_start, min(end + source_start, len(plain))) for start, end in link.source]
        target += [(start + target_start, end + target_start) for start, end in link.target]
        source_start += len(sentence)
        target_start += len(part) + len(space)
    return LinkedText(source, target, probabilities)
