"""Several models that translate as one: the mean of their log-probabilities.

Letters: B batch, T target positions, S source positions, V vocabulary.
"""

from keras import ops

from .interface import DecoderOutput, Memory, TranslationModel


class Ensemble(TranslationModel):
    """Predicts each token by the geometric mean of the probabilities that its members give.

    The logits are the mean of the members' logits. Log-probabilities are logits less a number that is the same for all
    tokens, so the softmax of that mean, which every search and every teacher-forced pass takes, is the softmax of the
    mean of the members' log-probabilities. Members may be of any architecture, size and precision. Twice the
    same model gives the very numbers of that model.

    An ensemble has no attention of its own. In place of layers, `DecoderOutput.cross` has one entry for each member
    that has cross-attention, the mean over its layers and heads as `(B, 1, T, S)`: what a coverage penalty counts, in
    which no member weighs more than another because it has more layers. What a member attends to is read from a
    teacher-forced pass of that member. It is made to translate, never trained or saved.

    Args:
        members: `TranslationModel`s of one vocabulary; one may be there twice.

    Call arguments and returns: see `TranslationModel`. `Memory.states` and `DecoderOutput.states` are tuples, with the
    states of each member.
    """

    def __init__(self, members, **kwargs):
        super().__init__(**kwargs)
        if not members:
            raise ValueError("members: expected at least one model, found none")
        self.members = list(members)
        self.output_embedding = _MeanLogits(self.members)
        self.built = True

    def encode(self, source_ids, training=None):
        memories = [member.encode(source_ids, training=training) for member in self.members]
        states, masks, _, prepared = zip(*memories, strict=True)
        return Memory(states, masks[0], (), prepared)

    def start_cache(self, memory):
        return tuple(member.start_cache(own) for member, own in zip(self.members, self._memories(memory), strict=True))

    def decode(self, target_ids, memory, cache=None, training=None):
        caches = [None] * len(self.members) if cache is None else cache
        outputs = [
            member.decode(target_ids, own, cache=own_cache, training=training)
            for member, own, own_cache in zip(self.members, self._memories(memory), caches, strict=True)
        ]
        states = tuple(output.states for output in outputs)
        return DecoderOutput(
            states,
            self.output_embedding.logits(states),
            tuple(_mean_of_layers(output.cross) for output in outputs if output.cross),
            (),
            None if cache is None else tuple(output.cache for output in outputs),
        )

    def _memories(self, memory):
        """Returns each member's own memory. All have the same mask, since all read the same ids."""
        return [
            Memory(states, memory.mask, (), prepared)
            for states, prepared in zip(memory.states, memory.prepared, strict=True)
        ]


class _MeanLogits:
    """The members' output embeddings as one: see `TokenEmbedding.logits`."""

    def __init__(self, members):
        self._members = members

    def logits(self, states):
        pairs = zip(self._members, states, strict=True)
        return ops.mean(ops.stack([member.output_embedding.logits(own) for member, own in pairs]), axis=0)


def _mean_of_layers(layers):
    """Returns the mean of weights `(B, H, T, S)` over layers and heads: `(B, 1, T, S)`."""
    return ops.mean(ops.stack([ops.mean(layer, axis=1, keepdims=True) for layer in layers]), axis=0)
