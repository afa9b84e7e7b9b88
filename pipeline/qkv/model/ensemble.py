"""An ensemble: several models that translate as one, by the mean of their log-probabilities.

Letters: B batch, T target positions, S source positions, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from .interface import DecoderOutput, Memory, TranslationModel


class Ensemble(TranslationModel):
    """Predicts each token by the geometric mean of its members' probabilities.

    The logits are the mean of the members' logits. Log-probabilities are logits minus a number that is the same for all
    tokens, so the softmax of the mean logits is the softmax of the mean log-probabilities. Every search and every
    teacher-forced pass applies this softmax. Members may have any architecture, size and precision. Two copies of one
    model give exactly that model's numbers.

    An ensemble has no attention layers. `DecoderOutput.cross` has one entry for each member with cross-attention
    instead of one for each layer: the mean over its layers and heads, `(B, 1, T, S)`. A coverage penalty uses it, and a
    member with more layers does not count more. To read the attention of a member, make a teacher-forced pass of that
    member alone. An ensemble translates, but it cannot be trained or saved.

    Args:
        members: a sequence of built `TranslationModel`s with the same vocabulary. A model may occur twice.
        **kwargs: the arguments of `keras.Model`.

    Call arguments and returns: see `TranslationModel`. `Memory.states` and `DecoderOutput.states` are tuples with the
    states of each member.

    Raises:
        ValueError: there are no members.
    """

    def __init__(self, members: Sequence[TranslationModel], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not members:
            raise ValueError("members: expected at least one model, found none")
        self.members = list(members)
        self.output_embedding = _MeanLogits(self.members)
        self.built = True

    def encode(self, source_ids: Any, training: bool | None = None) -> Memory:
        memories = [member.encode(source_ids, training=training) for member in self.members]
        states, masks, _, prepared, _ = zip(*memories, strict=True)
        return Memory(states, masks[0], (), prepared)

    def start_cache(self, memory: Memory) -> tuple[Any, ...]:
        members = zip(self.members, self._memories(memory), strict=True)
        return tuple(member.start_cache(member_memory) for member, member_memory in members)

    def decode(self, target_ids: Any, memory: Memory, cache: Any = None, training: bool | None = None) -> DecoderOutput:
        caches = [None] * len(self.members) if cache is None else cache
        outputs = [
            member.decode(target_ids, member_memory, cache=member_cache, training=training)
            for member, member_memory, member_cache in zip(self.members, self._memories(memory), caches, strict=True)
        ]
        states = tuple(output.states for output in outputs)
        return DecoderOutput(
            states,
            self.output_embedding.logits(states),
            tuple(_mean_of_layers(output.cross) for output in outputs if output.cross),
            (),
            None if cache is None else tuple(output.cache for output in outputs),
        )

    def _memories(self, memory: Memory) -> list[Memory]:
        """Returns the memory of each member. All have the same mask, because all members read the same ids."""
        return [
            Memory(states, memory.mask, (), prepared)
            for states, prepared in zip(memory.states, memory.prepared, strict=True)
        ]


class _MeanLogits:
    """The output embedding of an ensemble: the mean of the members' logits."""

    def __init__(self, members: Sequence[TranslationModel]) -> None:
        self._members = members
        self.vocabulary_size = members[0].output_embedding.vocabulary_size

    def logits(self, states: Any) -> Any:
        """Returns the mean logits, float32 `(B, T, V)`, for a tuple with the states of each member."""
        pairs = zip(self._members, states, strict=True)
        logits = [member.output_embedding.logits(member_states) for member, member_states in pairs]
        return ops.mean(ops.stack(logits), axis=0)


def _mean_of_layers(layers: Sequence[Any]) -> Any:
    """Returns the mean of the layers' weights `(B, H, T, S)` over layers and heads: `(B, 1, T, S)`."""
    return ops.mean(ops.stack([ops.mean(layer, axis=1, keepdims=True) for layer in layers]), axis=0)
