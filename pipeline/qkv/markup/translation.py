"""Translates texts with markup: the model reads plain text, and each translation gets the markup of its source.

TensorFlow is not imported here: each process of `--workers` imports it without its messages when it loads its run.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
        markup: `html`, `placeholders` or `html-page`, see `translate_pages`.

    Raises:
        InputError: the model has no cross-attention or gives NaN; or a text has a lone surrogate.
    """
    if markup == "html-page":
        return translate_pages(run, texts)[0]
    window = read_marked_lines(run, run.reader.typed_text("sentence"), markup, texts, range(1, len(texts) + 1))
    return [n_best[0] for n_best in translate_window(run, window).texts]


def translate_pages(
    run: "TrainedRun", pages: Sequence[str], name: str = "page", normalizes: bool = True
) -> "tuple[list[str], MarkedTranslations]":
    """Translates HTML pages, or parts of pages, together.

    A page is divided into texts at the tags of block elements, and each text into sentences if sentencex is installed.
    The rest of the page is unchanged, character by character. But the `lang` of its `<html>` tag becomes the target
    language if it is the source language.

    Args:
        run: the run.
        pages: the pages.
        name: the name of the pages in messages.
        normalizes: whether `data.normalize` of the run is applied.

    Returns:
        The translated pages, and the translations of all their texts.

    Raises:
        InputError: the model has no cross-attention or gives NaN; or a page has a lone surrogate.
    """
    data = run.config.data
    in_target = (html_text.set_language(page, data.source_language, data.target_language) for page in pages)
    read = list(map(html_text.read_page, in_target))
    numbered = [
        (text, line)
        for texts in read
        for text, line in zip(texts, accumulate(map(_count_lines, texts), initial=1), strict=False)
        if text.pieces
    ]
    reader = run.reader.typed_text(name, normalizes=normalizes, splits=find_spec("sentencex") is not None)
    window = read_marked(run, reader, [text for text, _ in numbered], [line for _, line in numbered])
    translated = translate_window(run, window)
    remaining = iter(translated.texts)
    written = ["".join(next(remaining)[0] if text.pieces else text.before for text in texts) for texts in read]
    return written, translated


def translate_page(
    run: "TrainedRun", page: str, name: str = "page", normalizes: bool = True
) -> "tuple[str, MarkedTranslations]":
    """Translates one HTML page, or a part of one; see `translate_pages`."""
    (written,), translated = translate_pages(run, [page], name, normalizes)
    return written, translated


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

    - read: the plain texts as the model has read them. Kept text that it could not copy is replaced or left out.
    - n_bests: the n-best list of each sentence of each text.
    - texts: the translations of each text, with markup. They are those of the n-best list, or the first ones; but for a
      text of several sentences, there is one translation, of the best translations of the sentences.
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


class _Candidate(NamedTuple):
    """A text of a window, as the model reads it in one try.

    - layout: its plain text.
    - paragraph: the sentences of the plain text.
    - read: the sentences as the model reads them.
    - ids: the ids of the sentences.
    - n_bests: the n-best list of each sentence; empty before it is translated.
    - translations: the plain translations of the text, see `_join_translations`; empty before it is translated.
    """

    layout: Layout
    paragraph: Paragraph
    read: list[str]
    ids: list[list[int]]
    n_bests: "list[list[Translation]]"
    translations: list[tuple[str, list[str]]]

    def copied(self) -> set[int]:
        """Returns the kept pieces that all translations have copied."""
        copies = [self.layout.find_copies(translation) for translation, _ in self.translations]
        return {number for number in self.layout.shown if all(number in places for places in copies)}

    def mean_log_probability(self) -> float:
        """Returns the mean log-probability of a token in the best translations."""
        values = [value for n_best in self.n_bests for value in n_best[0].log_probabilities]
        return sum(values) / max(len(values), 1)


def translate_window(
    run: "TrainedRun",
    window: MarkedWindow,
    prefix_ids: list[list[int]] | None = None,
    required: "list[list[RequiredPhrase]] | None" = None,
    marked: int | None = None,
) -> MarkedTranslations:
    """Translates texts with markup.

    If a translation does not have a kept text as often as the source, the text is translated again: with a name or a
    number in its place, as `STAND_INS` has them, and if that is not copied either, without it. Then the kept text is
    put where word links say. So each kept text is in the translation once.

    Args:
        run: the run.
        window: the texts.
        prefix_ids: see `Translator.translate_ids`. Each text must be one sentence.
        required: see `Translator.translate_ids`. Each text must be one sentence.
        marked: the number of translations of each n-best list that get markup; None for all.

    Raises:
        InputError: the model has no cross-attention or gives NaN; or no translation meets all constraints.
    """
    sentences = zip(window.read.texts, window.read.ids, strict=True)
    pending: dict[int, list[_Candidate]] = {}
    for index, (layout, paragraph) in enumerate(zip(window.layouts, window.read.paragraphs, strict=True)):
        pairs = [next(sentences) for _ in paragraph.sentences]
        first = _Candidate(layout, paragraph, [text for text, _ in pairs], [ids for _, ids in pairs], [], [])
        is_complete = len(layout.shown) == layout.source.count_kept()
        pending[index] = [first] if is_complete else _with_stand_ins(run, first, set(layout.shown), window.normalizes)
    chosen: dict[int, _Candidate] = {}
    while pending:
        pairs_to_try = [(index, candidate) for index, candidates in pending.items() for candidate in candidates]
        rows = [ids for _, candidate in pairs_to_try for ids in candidate.ids]
        prefixes = prefix_ids and [prefix_ids[index] for index, _ in pairs_to_try]
        phrases = required and [required[index] for index, _ in pairs_to_try]
        n_bests = iter(run.translator.translate_ids(rows, prefixes, phrases))
        tried: dict[int, list[_Candidate]] = {}
        for index, candidate in pairs_to_try:
            candidate = candidate._replace(n_bests=[next(n_bests) for _ in candidate.ids])
            translations = _join_translations(
                run, candidate.paragraph, [n_best[:marked] for n_best in candidate.n_bests]
            )
            tried.setdefault(index, []).append(candidate._replace(translations=translations))
        pending = {}
        for index, candidates in tried.items():
            complete = [candidate for candidate in candidates if len(candidate.copied()) == len(candidate.layout.shown)]
            if complete:
                chosen[index] = max(complete, key=_Candidate.mean_log_probability)
            else:
                pending[index] = _next_candidates(run, candidates[0], window.normalizes)
    texts = [chosen[index] for index in range(len(chosen))]
    read = ReadParagraphs(
        [text.paragraph for text in texts],
        [sentence for text in texts for sentence in text.read],
        [ids for text in texts for ids in text.ids],
    )
    return MarkedTranslations(read, [n_best for text in texts for n_best in text.n_bests], _restore(run, texts))


STAND_INS = (
    ("Tom", "Mary", "John", "Anna", "Emma", "Paul", "Marc", "Jane", "Maria", "Peter", "Hugo", "Anne"),
    ("100", "20", "10", "30", "50", "40", "2010", "3", "5", "1998"),
)
"""Words that many models copy: names, and numbers. The model reads words of one kind in the place of kept text. Of both
translations, the one is taken that the model finds more probable. Names of places bring prepositions with them: with
them, too, chrF fell by 7.5 where a number had stood (tests/benchmarks/placeholders.py)."""


def _next_candidates(run: "TrainedRun", failed: _Candidate, normalizes: bool) -> list[_Candidate]:
    """Returns the texts to try after one whose kept pieces were not all copied: with stand-ins first, then without."""
    layout = failed.layout
    unchanged = {number for number, words in layout.shown.items() if words == layout.source.pieces[number].text}
    copied = failed.copied() & unchanged
    if len(unchanged) == layout.source.count_kept():
        return _with_stand_ins(run, failed, copied, normalizes)
    shown = {number: layout.shown[number] for number in copied}
    return [_lay_out_again(run, failed, shown if len(shown) < len(layout.shown) else {}, normalizes)]


def _with_stand_ins(run: "TrainedRun", text: _Candidate, unchanged: set[int], normalizes: bool) -> list[_Candidate]:
    """Returns a text with stand-ins of each kind for its kept pieces, except the pieces `unchanged`.

    Of each kind, the words that take the fewest tokens are used. A kind with too few words that the model knows is left
    out. If no kind is left, the text is returned without these pieces.
    """
    pieces = text.layout.source.pieces
    shown = {number: pieces[number].text for number in unchanged}
    replaced = [number for number, piece in enumerate(pieces) if piece.kind == "kept" and number not in unchanged]
    plain = text.layout.plain.lower()
    candidates: list[_Candidate] = []
    for kind in STAND_INS:
        encoded = zip(kind, run.tokenizer.encode(kind), strict=True)
        known = [(len(ids), word) for word, ids in encoded if UNK not in ids and word.lower() not in plain]
        words = [word for _, word in sorted(known, key=lambda pair: pair[0])]
        if len(words) >= len(replaced):
            stand_ins = dict(zip(replaced, words, strict=False))
            candidates.append(_lay_out_again(run, text, shown | stand_ins, normalizes))
    return candidates or [_lay_out_again(run, text, shown, normalizes)]


def _lay_out_again(run: "TrainedRun", text: _Candidate, shown: dict[int, str], normalizes: bool) -> _Candidate:
    """Returns a text with other words for its kept pieces, without warnings."""
    layout = lay_out(text.layout.source, shown)
    paragraph = Paragraph([layout.plain], [])
    if len(text.paragraph.sentences) > 1:
        paragraph = run.reader.splitter(run.tokenizer.without_format_characters(layout.plain))
    normalize = run.reader.make_normalizer() if normalizes else None
    read = list(map(normalize or run.tokenizer.as_read, paragraph.sentences))
    return _Candidate(layout, paragraph, read, run.tokenizer.encode(read), [], [])


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
        texts = [as_plain(run, paragraph.sentences[0], translation.text) for translation in n_bests[0]]
        return [(text, [text]) for text in texts]
    pairs = zip(paragraph.sentences, n_bests, strict=True)
    parts = [as_plain(run, sentence, n_best[0].text) for sentence, n_best in pairs]
    return [(paragraph.join(parts), parts)]


def as_plain(run: "TrainedRun", source: str, translation: str) -> str:
    """Returns a translation as plain text, for readers.

    It begins with a capital only if the source does not begin with a small letter.
    """
    text = " ".join(translation.split())
    if not run.config.data.tokenized:
        return text
    plain = run.reader.detokenize(text)
    return text[:1] + plain[1:] if source[:1].islower() and plain[:1].lower() == text[:1] else plain


def _restore(run: "TrainedRun", texts: Sequence[_Candidate]) -> list[list[str]]:
    """Returns the translations of texts with their markup. The first run of an ensemble gives the links."""
    from ..run.ensemble import TrainedEnsemble  # not at the top: it imports TensorFlow

    linking_run = next(iter(run.members.values())) if isinstance(run, TrainedEnsemble) else run
    pairs = [
        (text.paragraph.sentences[index], part)
        for text in texts
        if text.layout.needs_links
        for _, parts in text.translations
        for index, part in enumerate(parts)
    ]
    linked = (
        link_texts(linking_run, [source for source, _ in pairs], [target for _, target in pairs]) if pairs else iter(())
    )
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
        rows, columns = (
            slice(len(target), len(target) + len(link.target)),
            slice(len(source), len(source) + len(link.source)),
        )
        probabilities[rows, columns] = link.probabilities
        source += [(start + source_start, min(end + source_start, len(plain))) for start, end in link.source]
        target += [(start + target_start, end + target_start) for start, end in link.target]
        source_start += len(sentence)
        target_start += len(part) + len(space)
    return LinkedText(source, target, probabilities)
