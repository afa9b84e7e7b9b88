"""The settings of a beam search: how hypotheses are extended, ranked and ended."""

from dataclasses import dataclass

from keras import ops


@dataclass(frozen=True)
class BeamSettings:
    """How hypotheses are searched and ranked.

    Args:
        size: K, how many hypotheses of each sentence are extended at every step.
        best: N, how many finished hypotheses of each sentence are returned, at most K.
        length_penalty: alpha. A hypothesis of n tokens, EOS included, scores its log-probability divided by
            `((5 + n) / 6) ^ alpha`: 0 favours short ones, as every token lowers the score; 1 is close to the mean per
            token.
        coverage_penalty: beta. `beta * sum_s log(min(1, attention that source token s received))` is added to the score
            of a finished hypothesis.
        min_length: the minimum number of tokens before EOS.
        no_repeat_ngram: no n-gram of this length occurs twice in a hypothesis; 0 allows all.
        divisor: by what log-probabilities are divided, one of `names.translation.LENGTH_DIVISORS`; above it is gnmt.
        end: when the search of a sentence ends, one of `config.names.translation.BEAM_ENDS`.
        force_eos: whether the last of the tokens that a target may have is EOS, as certain.
        renormalize: whether hypotheses are ranked by the probability among the tokens that may come next, and not among
            all tokens.

    Raises:
        ValueError: `best` is not between 1 and `size`.
    """

    size: int = 5
    best: int = 1
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    min_length: int = 0
    no_repeat_ngram: int = 0
    divisor: str = "gnmt"
    end: str = "full"
    force_eos: bool = False
    renormalize: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.best <= self.size:
            raise ValueError(f"best: expected between 1 and the size of the beam, {self.size}, found {self.best}")

    def length_divisor(self, length):
        """Returns the number by which the log-probability of a hypothesis of `length` tokens is divided."""
        tokens = ops.cast(length, "float32")
        return (tokens if self.divisor == "power" else (5.0 + tokens) / 6.0) ** self.length_penalty

    def coverage_bonus(self, attention):
        """Returns the number that is added to a hypothesis' score for its attention `(..., S)`: `(...)`, never
        positive."""
        return self.coverage_penalty * ops.sum(ops.log(ops.clip(attention, 1e-9, 1.0)), axis=-1)
