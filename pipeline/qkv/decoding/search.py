"""The searches for translations. Each is called with a model and the memory of the sources, and returns hypotheses.

Letters: B batch, N hypotheses of a sentence, L maximum length of a target, S source positions.
"""

from dataclasses import dataclass, field
from typing import Protocol

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..model.interface import Memory, TranslationModel, rows_for_each
from ..text.tokenizer import PAD
from .ban import Ban
from .beam import UNCONSTRAINED, BeamSettings, beam_search
from .constraint import Constraint
from .constraints import ban_early_end, ban_repeated_ngrams, force_end
from .greedy import choose_likeliest, greedy_search
from .hypotheses import Hypotheses
from .lexical import LexicalConstraint
from .requirements import Requirements
from .sampling import Sampler


class Search(Protocol):
    """A search: returns `Hypotheses` `(B, N, ...)`.

    Call arguments:
        model: any `TranslationModel`.
        memory: what `model.encode` returned for the sources, `(B, ...)`.
        max_lengths: int32 `(B,)`, the maximum number of tokens of each target, EOS included.
        length: L, at least the largest of `max_lengths`.
        prefix: int32 `(B, L)`, the tokens with which each target begins, then PAD; by default none.
        required: `Requirements` of the sentences, which a beam alone can meet; by default none.
    """

    def __call__(
        self,
        model: TranslationModel,
        memory: Memory,
        max_lengths,
        length,
        prefix=None,
        required: Requirements | None = None,
    ) -> Hypotheses: ...


@dataclass(frozen=True)
class GreedySearch:
    """One hypothesis: at every step the likeliest token that the constraints allow.

    Args:
        min_length: the minimum number of tokens before EOS.
        no_repeat_ngram: no n-gram of this length occurs twice; 0 allows all.
        force_eos: whether the last of the tokens that a target may have is EOS.
        ban: the phrases that no target contains, if any.
    """

    min_length: int = 0
    no_repeat_ngram: int = 0
    force_eos: bool = False
    ban: Ban | None = None

    def __call__(self, model, memory, max_lengths, length, prefix=None, required=None):
        _refuse_required(required)
        return self._search(model, memory, max_lengths, length, choose_likeliest, 1, prefix)

    def _search(self, model, memory, max_lengths, length, choose, count, prefix):
        batch = dynamic_shape(max_lengths)[0]
        rows = batch * count

        def step(tokens, state):
            cache, banned = state
            output = model.decode(tokens, memory, cache=cache, training=False)
            banned = self.ban.advance(banned, tokens[:, 0]) if self.ban else ()
            return output.logits[:, -1], (output.cache, banned)

        def choose_allowed(scores, ids, step, state):
            scores = ban_early_end(scores, step, self.min_length)
            scores = ban_repeated_ngrams(scores, ids, step, self.no_repeat_ngram)
            if self.ban:
                # Nothing goes back: a banned word that may not end would be glued to the next one.
                scores = self.ban.allow(scores, self.ban.following(state[1]), ops.ones_like(limits, "bool"))
            if self.force_eos:
                scores = force_end(scores, step + 1 >= limits)
            chosen = choose(scores, ids, step, state)
            if prefix is None:
                return chosen
            given = ops.take(beginning, step, axis=1)
            return ops.where(ops.equal(given, PAD), ops.cast(chosen, "int32"), given)

        cache, limits, beginning = model.start_cache(memory), max_lengths, prefix
        if count > 1:
            cache, limits = rows_for_each((cache, limits), rows)
            beginning = prefix if prefix is None else rows_for_each(prefix, rows)
        state = cache, self.ban.start(rows) if self.ban else ()
        ids, log_probabilities = greedy_search(step, state, limits, length, choose_allowed)
        shape = (batch, count, length)
        log_probabilities = ops.reshape(log_probabilities, shape)
        return Hypotheses(ops.reshape(ids, shape), log_probabilities, ops.sum(log_probabilities, axis=-1))


@dataclass(frozen=True)
class Sampling(GreedySearch):
    """N hypotheses of tokens drawn at random, in the order in which they were drawn.

    Args: see `GreedySearch`, and:
        sampler: draws the tokens.
        count: N.
    """

    sampler: Sampler = field(kw_only=True)
    count: int = field(default=1, kw_only=True)

    def __call__(self, model, memory, max_lengths, length, prefix=None, required=None):
        def choose(scores, ids, step, state):
            return self.sampler(scores)

        _refuse_required(required)
        return self._search(model, memory, max_lengths, length, choose, self.count, prefix)


@dataclass(frozen=True)
class BeamSearch:
    """The N best hypotheses of a beam: see `beam_search`.

    Args:
        settings: `BeamSettings`.
        ban: the phrases that no target contains, if any.
    """

    settings: BeamSettings
    ban: Ban | None = None

    def __call__(self, model, memory, max_lengths, length, prefix=None, required=None):
        uses_coverage = self.settings.coverage_penalty != 0
        hypotheses = dynamic_shape(max_lengths)[0] * self.settings.size

        def step(tokens, memory, state):
            cache, attention = state
            output = model.decode(tokens, memory, cache=cache, training=False)
            if uses_coverage:
                weights = ops.stack([ops.mean(layer[:, :, -1], axis=1) for layer in output.cross])
                attention = attention + ops.mean(weights, axis=0)
            return output.logits[:, -1], (output.cache, attention)

        def coverage(memory, state):
            # Padding counts as covered.
            padding = ops.logical_not(memory.mask[:, 0, 0])
            return ops.where(rows_for_each(padding, dynamic_shape(state[1])[0]), 1.0, state[1])

        sources = dynamic_shape(memory.mask)[-1] if uses_coverage else 0
        state = (rows_for_each(model.start_cache(memory), hypotheses), ops.zeros((hypotheses, sources)))
        constraint: Constraint = UNCONSTRAINED
        if self.ban or required:
            settings = self.settings
            constraint = LexicalConstraint(self.ban, required, max_lengths, settings.size, settings.force_eos)
        return beam_search(step, memory, state, max_lengths, length, self.settings, coverage, prefix, constraint)


def _refuse_required(required) -> None:
    if required is not None:
        raise ValueError("required: only a beam search can meet requirements; expected none")
