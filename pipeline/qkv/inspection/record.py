"""One sentence as the attention archive stores it."""

import html
import math
import operator
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..config.choices.inspection import RECORD_MODES, SITES, site_name
from ..config.choices.text import WORD_UNITS
from ..errors import InputError, quoted
from ..text.lines.line import words_of
from .colours import INK

if TYPE_CHECKING:
    import pandas as pd  # takes half a second, which commands that make no tables do without


def shorten(text: str, longest: int = 60) -> str:
    """Returns a text with an ellipsis in the place of what is beyond its `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


@dataclass(frozen=True, eq=False)
class Record:
    """One sentence with its tokens, words and attention; the axes are exactly as long as the token lists.

    `S` source tokens include EOS. For `T` target tokens, row t of the attention was computed from *input* token t to
    predict *output* token t, so the output list is the input list shifted by one place. Both are kept because the
    choice between them has the largest single effect on the quality of alignments. Records compare by identity.

    Attributes:
        id: position of the sentence in its file, from 0.
        source: the source sentence.
        reference: its given translation, where there is one.
        hypothesis: the text that the target tokens spell; for mode `forced` the text that was forced.
        source_tokens: S tokens, the last one EOS.
        target_input_tokens: T tokens, the first one BOS.
        target_output_tokens: T tokens, the last one EOS unless truncated.
        source_words: for each source token the index of its word in `source`, None for EOS. A token that holds several
            words has the last one's.
        target_words: for each target *output* token the index of its word in `hypothesis`, None for EOS.
        token_log_probabilities: T natural logarithms, of the output tokens; none where they are unknown.
        mode: `greedy`, `beam`, `sampling` or `forced`.
        truncated: whether the target stopped at the length limit, without EOS.
        attention: site (`cross`, and optionally others of `config.choices.inspection.SITES`) to float32 weights
            `(layer, head, query, key)`, after the softmax and before dropout. `norms` are the weights of the
            cross-attention, each times the length of the value vector that it weighs, as shares of the row (Kobayashi
            et al. 2020). `gradients` are not attention but gradient times input, also as shares of the row, with one
            layer and one head (Ding et al. 2019).
        sinks: site to float32 `(layer, head, query)`, for sites whose mechanism has a sink: the share of each row that
            went to no key, which makes its sum one.
        source_unit: what counts as a word of the source, one of `config.choices.text.WORD_UNITS`.
        target_unit: what counts as a word of the hypothesis.
        prefix_tokens: how many of the first target output tokens were given to the search, which found the others.
        required: the phrases that the search had to find.
    """

    id: int
    source: str
    reference: str | None
    hypothesis: str
    source_tokens: list[str]
    target_input_tokens: list[str]
    target_output_tokens: list[str]
    source_words: list[int | None]
    target_words: list[int | None]
    token_log_probabilities: list[float]
    mode: str
    truncated: bool
    attention: dict[str, np.ndarray]
    sinks: dict[str, np.ndarray] = field(default_factory=dict)
    source_unit: str = "spaces"
    target_unit: str = "spaces"
    prefix_tokens: int = 0
    required: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """Returns one line: number, texts, mode, and the shape of the attention at each site."""
        source, hypothesis = (repr(shorten(text)) for text in (self.source, self.hypothesis))
        shapes = ", ".join(f"{site} {weights.shape}" for site, weights in self.attention.items())
        return f"<Record {self.id}: {source} -> {hypothesis}, {self.mode}; {shapes}>"

    @property
    def has_empty_side(self) -> bool:
        """True if the source or the target has no word. Such a sentence counts in no measure of attention."""
        return any(all(word is None for word in words) for words in (self.source_words, self.target_words))

    def by_token(self) -> "Record":
        """Returns the sentence with every token but EOS as a word of its own."""
        source, target = (
            [None if word is None else place for place, word in enumerate(words)]
            for words in (self.source_words, self.target_words)
        )
        return replace(self, source_words=source, target_words=target, source_unit="subwords", target_unit="subwords")

    def spell_source_words(self) -> dict[int, str]:
        """Returns the text of each source word by its index; where words are not separated by spaces, of its tokens."""
        if self.source_unit == "spaces":
            return dict(enumerate(words_of(self.source)))
        spelling: dict[int, str] = {}
        for word, token in zip(self.source_words, self.source_tokens, strict=True):
            if word is not None:
                spelling[word] = spelling.get(word, "") + token.replace("\u2581", "")
        return spelling

    def to_frame(self, site: str = "cross", layer: int = 0, head: int | str = "mean") -> "pd.DataFrame":
        """Returns the weights of one layer and head, or of the mean over heads, as a table labelled with the tokens.

        Rows of the target are labelled with the tokens that they predict. Tokens may repeat, so select by `.iloc`.

        Args:
            site: a key of `attention`.
            layer: from 0; -1 is the last.
            head: from 0, or `mean`; -1 is the last.

        Raises:
            InputError: the record has no such site, layer or head.
        """
        import pandas as pd

        layers = self.to_numpy(site)
        site = site_name(site)
        if not layers.size:
            raise self._error(f"site: the model has no attention at {site!r}")
        heads = layers[self._index("layer", layer, len(layers))]
        if head != "mean":
            heads = heads[self._index("head", head, len(heads), " or 'mean'")][None]
        rows, _ = SITES[site].pick(self.source_tokens, self.target_output_tokens)
        _, columns = SITES[site].pick(self.source_tokens, self.target_input_tokens)
        return pd.DataFrame(heads.mean(axis=0), rows, columns)

    def to_numpy(self, site: str = "cross") -> np.ndarray:
        """Returns the weights of all layers and heads of a site, `(layer, head, query, key)`.

        Raises:
            InputError: the record has no such site.
        """
        name = site_name(site) if isinstance(site, str) else None
        if name not in self.attention:
            raise self._error(
                f"site: expected one of {', '.join(self.attention)}, found {quoted(site)}; the setting "
                "inspection.attention chooses the sites that are kept"
            )
        return self.attention[name]

    def _index(self, name: str, value: int | str, size: int, alternative: str = "") -> int:
        """Returns the number of a layer or head. Tables hold the numbers of heads as text."""
        if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
            value = int(value)
        try:
            index = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            index = size
        if not -size <= index < size:
            raise self._error(
                f"{name}: expected a number from -{size} to {size - 1} (-1: the last){alternative}, found "
                f"{quoted(value)}"
            )
        return index

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the mean of the last layer's cross-attention over its heads."""
        if not self.attention["cross"].size:
            return f"<p>{html.escape(self.source)}: {html.escape(self.hypothesis)}, without cross-attention</p>"
        table = self.to_frame(layer=-1)
        head = "".join(f'<th dir="auto">{html.escape(token)}</th>' for token in table.columns)
        rows = "".join(
            f'<tr><th dir="auto">{html.escape(str(token))}</th>'
            + "".join(f'<td style="{_cell_style(weight)}">{weight:.2f}</td>' for weight in row)
            + "</tr>"
            for token, row in zip(table.index, table.to_numpy(), strict=True)
        )
        return f"<table><tr><th></th>{head}</tr>{rows}</table>"

    def validate(self) -> None:
        """Checks that lists and axes fit together.

        Raises:
            InputError: a list or an axis has another length than its tokens, the input tokens are not the output tokens
                shifted by one place, a site or mode is unknown, or a log-probability is not a number.
        """
        source, target = len(self.source_tokens), len(self.target_output_tokens)
        expected = {"source_words": source, "target_input_tokens": target, "target_words": target}
        if self.token_log_probabilities:
            expected["token_log_probabilities"] = target
        for name, length in expected.items():
            if len(getattr(self, name)) != length:
                raise self._error(f"{name}: expected {length} entries, one per token, found {len(getattr(self, name))}")
        if self.target_input_tokens[1:] != self.target_output_tokens[:-1]:
            raise self._error("target_input_tokens[1:] must equal target_output_tokens[:-1]")
        if self.mode not in RECORD_MODES:
            raise self._error(f"mode: expected one of {', '.join(RECORD_MODES)}, found {self.mode!r}")
        if not 0 <= self.prefix_tokens <= target:
            raise self._error(f"prefix_tokens: expected 0 to {target}, found {self.prefix_tokens}")
        if not {self.source_unit, self.target_unit} <= WORD_UNITS.keys():
            raise self._error(f"source_unit, target_unit: expected {', '.join(WORD_UNITS)}")
        if not all(math.isfinite(value) for value in self.token_log_probabilities):
            raise self._error("token_log_probabilities: expected finite numbers")
        if "cross" not in self.attention:
            raise self._error(f"attention: expected the site 'cross' among others, found {sorted(self.attention)}")
        for site, weights in self.attention.items():
            if site not in SITES:
                raise self._error(f"attention: expected sites among {', '.join(SITES)}, found {site!r}")
            queries, keys = SITES[site].pick(source, target)
            if weights.ndim != 4 or weights.shape[2:] != (queries, keys):
                query, key = SITES[site].axes
                shape = f"(layer, head, {queries} {query} tokens, {keys} {key} tokens)"
                raise self._error(f"attention[{site!r}]: expected shape {shape}, found {weights.shape}")
        for site, shares in self.sinks.items():
            if site not in self.attention or shares.shape != self.attention[site].shape[:3]:
                raise self._error(f"sinks[{site!r}]: expected the shape of its rows, found {shares.shape}")

    def _error(self, message: str) -> InputError:
        return InputError(f"sentence {self.id}: {message}")


def _cell_style(weight: float) -> str:
    """Returns the style of a table's cell, mixed from the paper's colour and the ink's as in the viewer's page."""
    return f"background: {INK['light']}{round(255 * weight):02x}" + ("; color: white" if weight > 0.5 else "")
