"""Measures a model on the validation set while it trains."""

from ..decoding.translator import Translator
from ..metrics import MetricInputs, measure_all
from ..metrics.likelihood import LikelihoodMeter
from ..text.corpora.corpus import Corpus

VALIDATIONS = 10  # of a training whose total of updates is known


class Validation:
    """Computes the validation metrics of a model as it is when this is called.

    Args:
        meter: measures the likelihood of the references under the model.
        translator: of the same model, with greedy search.
        corpus: the validation text.
        bleu_tokenizer: how BLEU splits that text into words; see `make_bleu`.
    """

    def __init__(self, meter: LikelihoodMeter, translator: Translator, corpus: Corpus, *, bleu_tokenizer: str) -> None:
        self.meter = meter
        self.translator = translator
        self.corpus = corpus
        self.bleu_tokenizer = bleu_tokenizer

    def __call__(self) -> dict[str, float]:
        """Returns each of `config.names.translation.METRICS`, its name preceded by `val_`."""
        likelihood = self.meter.measure()
        translations = [translation.text for translation in self.translator.translate(self.corpus.source)]
        inputs = MetricInputs(translations, self.corpus.target, likelihood, self.bleu_tokenizer)
        return {f"val_{name}": value for name, value in measure_all(inputs).items()}


def is_due(update: int, every: int | None, total: int | None) -> bool:
    """Returns whether the model is validated after an update.

    Args:
        update: number of updates made.
        every: updates between two validations; None for `VALIDATIONS` of them, spread evenly over the total.
        total: number of updates of the training; None if it is not known yet, in which case no validation is due.
    """
    if every is not None:
        return update % every == 0
    return total is not None and VALIDATIONS * update // total > VALIDATIONS * (update - 1) // total
