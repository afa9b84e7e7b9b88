"""Why a head of a run looks where it looks."""

from functools import cached_property

import keras

from ..decoding.translator import Translator
from ..inspection.score_parts import ScoreParts
from ..inspection.split_score import in_float64
from .inside_text import Sentence, explain_score


class ExplainedScores:
    """What a `TrainedRun` says of the scores of its attention."""

    model: keras.Model

    @property
    def translator(self) -> Translator:
        """What searches the translation of a source that is given alone."""
        raise NotImplementedError

    def explain_score(self, sentence: Sentence, layer: str, *, head: int, row: int) -> ScoreParts:
        """Splits the scores of one row of attention into what query and key take from token, position and each sublayer
        below; the statistics of layer normalisation are held fixed.

        Args:
            sentence: see `cache`.
            layer: such as `decoder.0.cross`.
            head: its number.
            row: the query's position; in the decoder, row t predicts output token t.

        Raises:
            InputError: another architecture or mechanism, a score that is no product, or there is no such layer, head
                or row.
        """
        return explain_score(self.float64_model, self.translator, sentence, layer, head, row)

    @cached_property
    def float64_model(self) -> keras.Model:
        """A copy of the model that computes in float64, see `inspection.split_score`."""
        return in_float64(self.model)
