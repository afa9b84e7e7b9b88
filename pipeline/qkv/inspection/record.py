"""The record of a sentence: its texts, tokens, words and attention, as an attention archive stores them."""

import html
import math
import operator
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..config.choices.inspection import LABEL_SIDES, PICTURE_SUFFIXES, RECORD_MODES, SITES, site_name
from ..config.choices.text import WORD_UNITS
from ..errors import InputError, quoted
from ..files.paths import as_path, check_file_to_write
from ..text.lines.line import shorten, words_of
from .colours import INK

if TYPE_CHECKING:
    import pandas as pd  # imported only when a table is made: it takes half a second
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Record:
    """The tokens, words and attention of a sentence. The axes of the attention are as long as the lists of tokens.

    There are S source tokens, EOS included, and T target tokens. Row t of the attention was computed from *input* token
    t to predict *output* token t, so the output tokens are the input tokens shifted by one position. A record has both
    lists, because the choice between them has the largest single effect on the quality of alignments. Records compare
    by identity.

    Attributes:
        id: the index of the sentence in its file, from 0.
        source: the source sentence.
        reference: the reference translation; None if there is none.
        hypothesis: the text of the target tokens. In the mode `forced` it is the text that the model was forced to
            read.
        source_tokens: S tokens, the last one EOS.
        target_input_tokens: T tokens, the first one BOS.
        target_output_tokens: T tokens, the last one EOS unless truncated.
        source_words: the index in `source` of each source token's word, None for EOS. A token with several words has
            the index of the last one.
        target_words: the index in `hypothesis` of each target *output* token's word, None for EOS.
        token_log_probabilities: the natural logarithms of the probabilities of the T output tokens; empty if they are
            unknown.
        mode: `greedy`, `beam`, `sampling` or `forced`.
        truncated: whether the target stopped at the length limit, without EOS.
        attention: site -> float32 weights `(layer, head, query, key)`, after the softmax and before dropout. The sites
            are `cross`, and optionally others of `config.choices.inspection.SITES`. `norms` are the weights of the
            cross-attention, each times the length of its value vector, as shares of the row (Kobayashi et al. 2020).
            `gradients` are not attention but gradient times input, also as shares of the row, with one layer and one
            head (Ding et al. 2019).
        sinks: site -> the weight of each row that went to the learnt sink instead of a key, float32
            `(layer, head, query)`. With it, the sum of a row is one. Only sites whose mechanism has a sink are in it.
        source_unit: the unit of words of the source, one of `config.choices.text.WORD_UNITS`.
        target_unit: the unit of words of the hypothesis.
        prefix_tokens: the number of target output tokens that were the prefix of the search.
        required: the phrases that the search was required to use.
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
        """True if the source or the target has no word. Measures of attention leave out such sentences."""
        return any(all(word is None for word in words) for words in (self.source_words, self.target_words))

    def by_token(self) -> "Record":
        """Returns a copy of the record in which every token with a word is a separate word."""
        source = _token_indices(self.source_words)
        target = _token_indices(self.target_words)
        return replace(self, source_words=source, target_words=target, source_unit="subwords", target_unit="subwords")

    def spell_source_words(self) -> dict[int, str]:
        """Returns the text of each source word: index -> text. Without spaces between words, tokens are joined."""
        if self.source_unit == "spaces":
            return dict(enumerate(words_of(self.source)))
        spelling: dict[int, str] = {}
        for word, token in zip(self.source_words, self.source_tokens, strict=True):
            if word is not None:
                spelling[word] = spelling.get(word, "") + token.replace("\u2581", "")
        return spelling

    def to_frame(self, site: str = "cross", layer: int = 0, head: int | str = "mean") -> "pd.DataFrame":
        """Returns the weights of one head, or the mean of a layer's heads, as a table labelled with tokens.

        Rows are queries and columns are keys. A row of the target is labelled with the token that it predicts. Tokens
        may repeat, so select by `.iloc`.

        Args:
            site: a key of `attention`.
            layer: the index of the layer; -1 is the last.
            head: the index of the head, -1 for the last; or `mean`.

        Raises:
            InputError: the record has no such site, layer or head.
        """
        import pandas as pd

        weights, _ = self._read_head(site, layer, head)
        return pd.DataFrame(weights, *self.axis_tokens(site_name(site)))

    def axis_tokens(self, site: str = "cross", side: str = "output") -> tuple[list[str], list[str]]:
        """Returns the tokens of the queries and of the keys of a site.

        Args:
            site: one of `config.choices.inspection.SITES`.
            side: the target tokens of the queries: `output` or `input`, see `plot`. The keys of the decoder's
                self-attention are always its input tokens.
        """
        target = self.target_output_tokens if side == "output" else self.target_input_tokens
        queries, _ = SITES[site].pick(self.source_tokens, target)
        _, keys = SITES[site].pick(self.source_tokens, self.target_input_tokens)
        return queries, keys

    def plot(
        self,
        site: str = "cross",
        layer: int = -1,
        head: int | str = "mean",
        side: str = "output",
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Draws the weights of one head, or the mean of a layer's heads, as a heat map.

        Args:
            site: a key of `attention`.
            layer: the index of the layer; -1 is the last.
            head: the index of the head, -1 for the last; or `mean`.
            side: the target tokens that label the rows: `output` (the token that row t predicts) or `input` (the token
                that row t is computed from). Rows of the encoder have source tokens in both cases.
            ax: the matplotlib `Axes` to draw on. None makes a figure of pyplot, which a notebook shows.

        Returns:
            The `Axes`, with titles. `ax.figure.colorbar(ax.images[0], ax=ax)` adds the scale of colours, which only a
            figure of pyplot has from the start.

        Raises:
            InputError: the record has no such site, layer or head, or `side` is unknown.
        """
        from .heatmap import heatmap

        if side not in LABEL_SIDES:
            raise self._error(f"side: expected {' or '.join(LABEL_SIDES)}, found {quoted(side)}")
        weights, head_title = self._read_head(site, layer, head)
        name = site_name(site)
        ax = heatmap(weights, *self.axis_tokens(name, side), ax)
        queries, keys = (
            SITES[name].pick("source tokens", LABEL_SIDES[target_side])[axis]
            for axis, target_side in enumerate((side, "input"))
        )
        ax.set_title(f"{SITES[name].title}\n{head_title}", fontsize="medium")
        ax.set_ylabel(queries)
        ax.set_xlabel(keys)
        ax.xaxis.set_label_position("bottom")
        return ax

    def save(
        self, path: str | Path, site: str = "cross", layer: int = -1, head: int | str = "mean", side: str = "output"
    ) -> None:
        """Writes the heat map of `plot` to a file. An existing file is replaced.

        A failed or killed call leaves the old file, or none. No window opens and no figure of pyplot is made.

        Args:
            path: a file whose name ends in `.png`, `.svg` or `.pdf`.
            site, layer, head, side: see `plot`.

        Raises:
            InputError: as for `plot`; or the file has another suffix or cannot be written.
        """
        from .heatmap import add_colour_bar, make_axes, make_label, save_figure

        file = as_path(path, "path", "a file, such as 'attention.png'")
        if file.suffix not in PICTURE_SUFFIXES:
            raise InputError(
                f"path: expected a name that ends in {', '.join(PICTURE_SUFFIXES)}, found {str(file)!r:.60}"
            )
        check_file_to_write(file)
        self._read_head(site, layer, head)  # refuses a wrong site before the figure is made
        rows, columns = ([make_label(token) for token in tokens] for tokens in self.axis_tokens(site_name(site), side))
        figure, ax, bar = make_axes(rows, columns)
        self.plot(site, layer, head, side, ax)
        add_colour_bar(ax, bar)
        save_figure(figure, file)

    def to_numpy(self, site: str = "cross") -> np.ndarray:
        """Returns the weights of all layers and heads of a site, `(layer, head, query, key)`.

        Raises:
            InputError: the record has no such site.
        """
        name = site_name(site) if isinstance(site, str) else None
        if name not in self.attention:
            raise self._error(
                f"site: expected one of {', '.join(self.attention)}, found {quoted(site)}; the setting "
                "inspection.attention chooses the sites that are recorded"
            )
        return self.attention[name]

    def _read_head(self, site: str, layer: int, head: int | str) -> tuple[np.ndarray, str]:
        """Returns the weights of one head, or the mean of a layer's heads, `(query, key)`, and a title for them.

        The arguments and errors are those of `to_frame`.
        """
        layers = self.to_numpy(site)
        if not layers.size:
            raise self._error(f"site: the model has no attention at the site {site_name(site)!r}")
        layer = self._index("layer", layer, len(layers))
        heads = layers[layer]
        if head == "mean":
            return heads.mean(axis=0), f"layer {layer}, mean of {len(heads)} head{'s' * (len(heads) > 1)}"
        head = self._index("head", head, len(heads), " or 'mean'")
        return heads[head], f"layer {layer}, head {head}"

    def _index(self, name: str, value: int | str, size: int, alternative: str = "") -> int:
        """Returns the index of a layer or head, from 0. The value may be negative, or text, as in tables.

        Raises:
            InputError: the value is not an index from `-size` to `size - 1`.
        """
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
        return index % size

    def _repr_html_(self) -> str:
        """Returns the HTML for a notebook: a table of the last layer's cross-attention, averaged over its heads."""
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
        """Checks that the fields are consistent.

        Raises:
            InputError: a list or an axis has another length than its tokens, the output tokens are not the input tokens
                shifted by one position, the site `cross` is missing, a site, mode or unit is unknown, `prefix_tokens`
                is not from 0 to T, or a log-probability is not finite.
        """
        source, target = len(self.source_tokens), len(self.target_output_tokens)
        expected = {"source_words": source, "target_input_tokens": target, "target_words": target}
        if self.token_log_probabilities:
            expected["token_log_probabilities"] = target
        for name, length in expected.items():
            if len(getattr(self, name)) != length:
                raise self._error(f"{name}: expected {length} entries, one per token, found {len(getattr(self, name))}")
        if self.target_input_tokens[1:] != self.target_output_tokens[:-1]:
            raise self._error("target_input_tokens[1:]: expected the same tokens as target_output_tokens[:-1]")
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
                raise self._error(f"sinks[{site!r}]: expected shape (layer, head, query), found {shares.shape}")

    def _error(self, message: str) -> InputError:
        """Returns an error that names the sentence."""
        return InputError(f"sentence {self.id}: {message}")


def _token_indices(words: list[int | None]) -> list[int | None]:
    """Returns a list with the index of each token, or None for a token without a word."""
    return [None if word is None else index for index, word in enumerate(words)]


def _cell_style(weight: float) -> str:
    """Returns the CSS of a table cell: the viewer's colour of weight 1, more transparent for lower weights."""
    return f"background: {INK['light']}{round(255 * weight):02x}" + ("; color: white" if weight > 0.5 else "")
