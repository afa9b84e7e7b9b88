"""What is measured on the validation set while a model trains."""

from ..decoding.translator import Translator
from ..metrics.bleu import bleu_metric
from ..metrics.likelihood import LikelihoodMeter
from ..text.corpus import Corpus


class Validation:
    """Measures the model as it is, each time it is called.

    Args:
        meter: of the references' likelihood.
        translator: of the same model, by greedy search.
        corpus: the validation text.
        tokenized: whether it is tokenised already; see `bleu_metric`.
    """

    def __init__(self, meter: LikelihoodMeter, translator: Translator, corpus: Corpus, *, tokenized: bool) -> None:
        self.meter = meter
        self.translator = translator
        self.corpus = corpus
        self.bleu = bleu_metric(tokenized)

    def __call__(self) -> dict[str, float]:
        likelihood = self.meter.measure()
        translations = [translation.text for translation in self.translator.translate(self.corpus.source)]
        return {
            "val_loss": likelihood.loss,
            "val_perplexity": likelihood.perplexity,
            "val_token_accuracy": likelihood.token_accuracy,
            "val_bleu": self.bleu.corpus_score(translations, [self.corpus.target]).score,
        }
