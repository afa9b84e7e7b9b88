"""The metrics of validation and evaluation, by name.

To add a metric, add its function to `METRIC_FUNCTIONS` and its row to `config.choices.translation.METRIC_INFO`. Then
validation computes it, the progress line and `history.csv` show it, evaluation writes it, and it can choose the best
checkpoint.

The modules, in reading order:

- `bleu`: BLEU, chrF and TER
- `likelihood`: loss, perplexity and token accuracy of references
- `token_metrics`: `TokenAccuracy` and `Perplexity`, metrics for Keras' `compile`; imported at their first use
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .bleu import score_bleu

if TYPE_CHECKING:
    from .likelihood import Likelihood
    from .token_metrics import Perplexity as Perplexity
    from .token_metrics import TokenAccuracy as TokenAccuracy

__all__ = ["METRIC_FUNCTIONS", "MetricInputs", "Perplexity", "TokenAccuracy", "measure_all"]


def __getattr__(name: str) -> Any:
    if name not in ("Perplexity", "TokenAccuracy"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import token_metrics

    return getattr(token_metrics, name)


@dataclass(frozen=True)
class MetricInputs:
    """The inputs of a metric.

    Args:
        translations: the model's translation of each source.
        references: the reference translation of each source.
        likelihood: the likelihood of the references under the model.
        bleu_tokenizer: the tokenizer of BLEU, a key of `config.choices.translation.BLEU_TOKENIZERS`.
    """

    translations: Sequence[str]
    references: Sequence[str]
    likelihood: "Likelihood"
    bleu_tokenizer: str


METRIC_FUNCTIONS: dict[str, Callable[[MetricInputs], float]] = {
    "loss": lambda inputs: inputs.likelihood.loss,
    "perplexity": lambda inputs: inputs.likelihood.perplexity,
    "token_accuracy": lambda inputs: inputs.likelihood.token_accuracy,
    "bleu": lambda inputs: score_bleu(inputs.translations, inputs.references, tokenizer=inputs.bleu_tokenizer),
}
"""The function of each metric in `config.choices.translation.METRIC_INFO`."""


def measure_all(inputs: MetricInputs) -> dict[str, float]:
    """Computes the value of each metric by its name, in the order of `METRIC_FUNCTIONS`."""
    return {name: measure(inputs) for name, measure in METRIC_FUNCTIONS.items()}
