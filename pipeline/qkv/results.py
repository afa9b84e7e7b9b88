"""The results that the methods of a run return: translations, and an evaluation."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError
from .inspection.archive import AttentionArchive
from .inspection.record import Record, shorten

if TYPE_CHECKING:
    import pandas as pd

    from .decoding.translator import Translation
    from .run.trained_run import TrainedRun


SCORE_TITLES = {"bleu": "BLEU", "chrf": "chrF"}
"""The title of each score that an `Evaluation` shows, by its key in `metrics.json`."""


@dataclass(frozen=True, eq=False, repr=False)
class Translated:
    """A translation of a sentence, which `Run.translate` returns. Its `str` is the text.

    Attributes:
        source: the sentence, as the model has read it.
        text: the translation.
        tokens: the subwords of the translation, with EOS at the end unless the maximum length was reached before.
        log_probabilities: the log-probability of each token, in nats.
        log_probability: the sum of `log_probabilities`.
        score: the score by which the search ranked the translation.
        truncated: True if the sentence was too long and was cut, or the translation reached the maximum length.
        attention: a `Record` with the weights of cross-attention and of the sites in `inspection.attention` of the
            config; see its `to_frame` and `to_numpy`. It is computed at its first use, which needs the run. A pickle
            contains it only if it was computed before; otherwise the loaded copy raises an `InputError`.
        confidence: the probability that the translation is good, from 0 to 1, see docs/use/confidence.md. It is
            computed at its first use, for all sentences of the call of `Run.translate`: that takes as long as to
            translate them again. The first use in a run also fits it on the validation set.
    """

    source: str
    text: str
    tokens: list[str]
    log_probabilities: list[float]
    log_probability: float
    score: float
    truncated: bool

    @classmethod
    def _of(
        cls, source: str, translation: "Translation", run: "TrainedRun", rating: "Callable[[], float] | None" = None
    ) -> "Translated":
        """Makes the object from the result of the search of a run.

        Args:
            source: the sentence.
            translation: its translation.
            run: the run.
            rating: a function that returns the confidence; None if there is none, as of a second-best translation.
        """
        translated = cls(
            source,
            translation.text,
            run.tokenizer.pieces(translation.ids),
            translation.log_probabilities,
            sum(translation.log_probabilities, 0.0),
            translation.score,
            translation.truncated,
        )
        # Not a field, which `dataclasses.asdict` would copy.
        vars(translated)["_origin"] = _Origin(translation, run, rating)
        return translated

    @cached_property
    def _origin(self) -> "_Origin":
        """The origin of the translation. It has no run if the object was made by hand or by `dataclasses.replace`."""
        return _Origin()

    @cached_property
    def attention(self) -> Record:
        """The attention, see the class. Raises an `InputError` if the run is unknown."""
        from .inspection.recorder import pair_translations

        run = self._origin.run
        if run is None:
            raise InputError(
                "attention: this translation has no run to read it with, since it comes from a pickle or was made by "
                "hand; ask for it before pickling, or translate the sentence again"
            )
        pairs = pair_translations([self.source], None, [self._origin.translation], run.config.decoding.kind)
        return next(run.recorder(["cross", *run.config.inspection.attention]).record(pairs))

    @cached_property
    def confidence(self) -> float:
        """The confidence, see the class.

        Raises:
            InputError: the run is unknown; the translation is not the best one of its sentence; or the confidence
                cannot be fitted, since the validation set of the run is missing, or has too few pairs.
        """
        if self._origin.run is None:
            raise InputError(
                "confidence: this translation has no run to rate it with, since it comes from a pickle or was made by "
                "hand; ask for it before pickling, or translate the sentence again"
            )
        if self._origin.rating is None:
            raise InputError("confidence: only the best translation of a sentence has one; take the first")
        return self._origin.rating()

    def __str__(self) -> str:
        """Returns the translation."""
        return self.text

    def __repr__(self) -> str:
        """Returns the translation and its log-probability."""
        return f"<Translated {self.text!r}, log-probability {self.log_probability:.3f}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the translation, and below it the heat map of `attention`."""
        title = f"<b>{html.escape(self.text)}</b> (log-probability {self.log_probability:.2f})"
        if "attention" not in vars(self) and self._origin.run is None:
            return f"<p>{title}</p>"
        return f'<p>{title}</p><div style="overflow-x: auto">{self.attention._repr_html_()}</div>'


class _Origin:
    """The origin of a `Translated`: the `Translation`, the run and the function of its confidence, or None for each.

    A pickle contains none of them, and a deep copy has the same objects.
    """

    def __init__(
        self, translation: Any = None, run: "TrainedRun | None" = None, rating: "Callable[[], float] | None" = None
    ) -> None:
        self.translation = translation
        self.run = run
        self.rating = rating

    def __reduce__(self) -> Any:
        return _Origin, ()

    def __deepcopy__(self, memo: Any) -> "_Origin":
        return self


@dataclass(frozen=True, eq=False, repr=False)
class TranslatedText:
    """A translation of a text, sentence by sentence, which `Run.translate` returns with `split=True`.

    Attributes:
        sentences: the translations of the sentences of the text, and of its empty lines.
        text: the translations as one text, with the spaces and line feeds of the source between them. Spaces at the
            ends of lines are left out.
    """

    sentences: list[Translated]
    text: str

    def __str__(self) -> str:
        """Returns the translation as one text."""
        return self.text

    def __repr__(self) -> str:
        """Returns the text, cut to 60 characters, and the number of its sentences."""
        return f"<TranslatedText {shorten(self.text)!r}, {len(self.sentences)} sentences>"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """A written evaluation, which `Run.evaluate` returns.

    Args:
        path: the folder of the evaluation; its file `viewer.html` shows the attention.
        metrics: the contents of its file `metrics.json`.
    """

    path: Path
    metrics: dict[str, Any]

    def __repr__(self) -> str:
        """Returns folder, number of sentences and scores, without a file being read."""
        scores = [f"{title} {self.metrics[key]:.1f}" for key, title in SCORE_TITLES.items() if key in self.metrics]
        facts = [f"{self.metrics['sentences']:,} sentences", *(scores or ["no references"])]
        return f"<Evaluation {self.path}: {', '.join(facts)}>"

    @cached_property
    def scores(self) -> "pd.DataFrame":
        """The scores: a row for BLEU, for chrF and, with gold alignments, for AER. Empty without references.

        Column `value` is the score. Column `±` is half the width of its 95 % interval, by bootstrap over sentences.
        """
        import pandas as pd

        from .evaluation.comparison import compare
        from .evaluation.systems import find_system
        from .statistics.resampling import SAMPLES

        rows = compare([find_system(self.path, "")], SAMPLES)[0] if "bleu" in self.metrics else pd.DataFrame()
        names = [name for name in ("BLEU", "chrF", "AER") if name in rows and rows[name].notna().all()]
        values = [[float(rows[name][0]), float(rows[f"{name} ±"][0])] for name in names]
        return pd.DataFrame(values, names, ["value", "±"])

    @cached_property
    def archive(self) -> AttentionArchive:
        """The archive with the attention of every sentence."""
        return AttentionArchive(self.path)

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the scores."""
        return f"<p>{html.escape(str(self.path))}</p>{self.scores.round(2).to_html(notebook=True)}"
