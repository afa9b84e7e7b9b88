"""The metrics of validation and evaluation, by name.

To add a metric, add its function to `METRIC_FUNCTIONS` and its row to `config.choices.translation.METRIC_INFO`. Then
validation computes it, the progress line and `history.csv` show it, evaluation writes it, and it can choose the best
checkpoint.

- `bleu`: BLEU, chrF and TER
- `likelihood`: loss, perplexity and token accuracy of references
- `token_metrics`: `TokenAccuracy` and `Perplexity`, for Keras' `compile`

`TokenAccuracy` and `Perplexity`, for `compile` of Keras, are imported when they are first used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .bleu import score_bleu

if TYPE_CHECKING:
    from .likelihood import Likelihood
    from .token_metrics import Perplexity as Perplexity
    from .token_metrics import TokenAccuracy as TokenAccuracy


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
        bleu_tokenizer: the tokenizer of BLEU, see `bleu.make_bleu`.
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


def measure_all(inputs: MetricInputs) -> dict[str, float]:
    """Computes all metrics, in the order of `METRIC_FUNCTIONS`."""
    return {name: measure(inputs) for name, measure in METRIC_FUNCTIONS.items()}
