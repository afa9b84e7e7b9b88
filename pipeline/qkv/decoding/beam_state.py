"""The state of a beam search between two steps: how it starts, and how finished sentences leave it.

Letters: as in `beam`.
"""

from typing import Any, NamedTuple

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..text.tokenizer import PAD
from .constraints import MINUS_INFINITY
from .control_flow import branch
from .hypotheses import Hypotheses, fill_up, gather_rows


class BeamState(NamedTuple):
    """The search between two steps.

    - step: how many tokens every live hypothesis has.
    - rows: int32 `(A,)`, the sentences of the batch that are still searched.
    - live: `Hypotheses` `(A, K, ...)` that are still extended, scored by log-probability.
    - finished: `Hypotheses` `(B, K, ...)` that have ended, of all sentences of the batch, scored as they are ranked.
    - source_state: of the A sentences.
    - target_state: of the A * K live hypotheses.
    """

    step: Any
    rows: Any
    live: Hypotheses
    finished: Hypotheses
    source_state: Any
    target_state: Any


def start_beam(source_state, target_state, max_lengths, length, size) -> BeamState:
    """Returns the state before the first step: no token, nothing finished, and only sentences that may have a token. Of
    the others the empty hypothesis is finished, and certain.

    Args:
        source_state, target_state, max_lengths, length: see `beam_search`.
        size: K.
    """
    batch = dynamic_shape(max_lengths)[0]
    rows = ops.cast(ops.nonzero(max_lengths > 0)[0], "int32")
    # K equal hypotheses would stay equal, so only the first starts.
    scores = ops.broadcast_to(ops.where(ops.arange(size) == 0, 0.0, MINUS_INFINITY), (batch, size))
    ids = ops.full((batch, size, length), PAD, "int32")
    empty = Hypotheses(ids, ops.zeros((batch, size, length)), scores)
    may_have_tokens = ops.expand_dims(max_lengths > 0, 1)
    finished = empty._replace(scores=ops.where(may_have_tokens, MINUS_INFINITY, scores))
    of_rows = ops.expand_dims(rows * size, 1) + ops.arange(size, dtype="int32")
    return BeamState(
        ops.zeros((), "int32"),
        rows,
        Hypotheses(*gather_rows(empty, rows)),
        finished,
        branch(ops.all(may_have_tokens), lambda: source_state, lambda: gather_rows(source_state, rows)),
        gather_rows(target_state, ops.reshape(of_rows, (-1,))),
    )


def drop_finished(state, finished, live, parents, max_lengths, settings) -> BeamState:
    """Stores the finished hypotheses and drops the sentences that need no further step.

    Args:
        state: `BeamState` after the step.
        finished: `Hypotheses` `(A, K, ...)` that have ended so far.
        live: `Hypotheses` `(A, K, ...)` to extend further.
        parents: int32 `(A, K)`, the hypothesis that each of `live` extends.
        max_lengths: int32 `(B,)`.
        settings: `BeamSettings`.
    """
    longest = ops.take(max_lengths, state.rows)
    at_longest = state.step >= longest
    divisor = settings.length_divisor(ops.expand_dims(longest, 1))
    finished = fill_up(finished, live._replace(scores=live.scores / divisor), at_longest)
    # No token adds probability and none takes coverage away, so no live hypothesis can score higher than this.
    reachable = (live.scores[:, :1] / divisor)[:, 0]
    beam_full = ops.greater(finished.scores[:, -1], MINUS_INFINITY)
    if settings.end == "worst":
        best_live = live.scores[:, 0] / settings.length_divisor(state.step)
        beam_full = ops.logical_and(beam_full, finished.scores[:, -1] >= best_live)
    out_of_reach = finished.scores[:, settings.best - 1] >= reachable
    done = ops.logical_or(at_longest, ops.logical_or(beam_full, out_of_reach))
    indices = (ops.expand_dims(state.rows, 1),) * 3
    stored = (ops.scatter_update(*update) for update in zip(state.finished, indices, finished, strict=True))
    remaining = ops.cast(ops.nonzero(ops.logical_not(done))[0], "int32")
    origins = ops.take(parents, remaining, axis=0) + settings.size * ops.expand_dims(remaining, 1)
    return BeamState(
        state.step,
        ops.take(state.rows, remaining),
        Hypotheses(*gather_rows(live, remaining)),
        Hypotheses(*stored),
        branch(ops.any(done), lambda: gather_rows(state.source_state, remaining), lambda: state.source_state),
        gather_rows(state.target_state, ops.reshape(origins, (-1,))),
    )
