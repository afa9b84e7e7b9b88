"""What is measured on the validation set while a model trains."""

from ..decoding.translator import Translator
from ..metrics import MetricInputs, measure_all
from ..metrics.likelihood import LikelihoodMeter
from ..text.corpus import Corpus


class Validation:
    """Measures the model as it is, each time it is called.

    Args:
        meter: of the references' likelihood.
        translator: of the same model, by greedy search.
        corpus: the validation text.
        tokenized: whether it is tokenised already; see `make_bleu`.
    """

    def __init__(self, meter: LikelihoodMeter, translator: Translator, corpus: Corpus, *, tokenized: bool) -> None:
        self.meter = meter
        self.translator = translator
        self.corpus = corpus
        self.tokenized = tokenized

    def __call__(self) -> dict[str, float]:
        likelihood = self.meter.measure()
        translations = [translation.text for translation in self.translator.translate(self.corpus.source)]
        inputs = MetricInputs(translations, self.corpus.target, likelihood, self.tokenized)
        return {f"val_{name}": value for name, value in measure_all(inputs).items()}
