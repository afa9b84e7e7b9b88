"""A Transformer's pass over one sentence in float64, from its weights and the papers' formulas alone.

It knows pre-norm blocks, sinusoidal positions, the mechanism `softmax` with `scaled_dot`, ReLU and tied embeddings.
"""

from collections.abc import Mapping

import numpy as np

from tests.support import oracles


class Pass:
    """The values of a pass by the names of `run.cache`: `.weights`, `.values`, `.output` and `.residual` of sublayers.

    Args:
        model: the `Transformer`, of which only weights and sizes are read.
        source: ids up to EOS.
        target: ids from BOS on.
        removed: `(name, head)` of a head whose context is zero, such as `("decoder.0.cross", 1)`.
        patched: outputs of sublayers that replace the computed ones, by name.
    """

    def __init__(self, model, source, target, removed=None, patched: Mapping[str, np.ndarray] | None = None):
        self.values: dict[str, np.ndarray] = {}
        self.removed, self.patched = removed, patched or {}
        self.width = model.get_config()["d_model"]
        self.on_input = model.source_positions.adds_to == "input"
        self.table = np.array(model.output_embedding.table, "float64")
        encoder_norm, self.decoder_norm = (norm.get_weights() for norm in model.final_norms)
        x = self.embed("encoder", source)
        for number, block in enumerate(model.encoder_blocks):
            x = self.attend(f"encoder.{number}.self", block.self_attention, block.self_attention_residual, x)
            x = self.feed(f"encoder.{number}.feed_forward", block, x)
        memory = oracles.layer_norm(x, *encoder_norm)
        x = self.embed("decoder", target)
        for number, block in enumerate(model.decoder_blocks):
            name = f"decoder.{number}"
            x = self.attend(f"{name}.self", block.self_attention, block.self_attention_residual, x, causal=True)
            x = self.attend(f"{name}.cross", block.cross_attention, block.cross_attention_residual, x, memory)
            x = self.feed(f"{name}.feed_forward", block, x)
        self.logits = self.read_out(x)

    def read_out(self, stream):
        """The logits of a stream."""
        return oracles.layer_norm(stream, *self.decoder_norm) @ self.table.T

    def log_probability(self, predicted):
        """The log-probability of a target, in nats."""
        return oracles.log_softmax(self.logits)[np.arange(len(predicted)), predicted].sum()

    def positions(self, length):
        return np.array([[oracles.sinusoid(t, i, self.width) for i in range(self.width)] for t in range(length)])

    def embed(self, side, ids):
        x = self.table[ids] * np.sqrt(self.width) + (self.positions(len(ids)) if self.on_input else 0)
        self.values[f"{side}.embedding"] = x
        return x

    def add(self, name, x, output):
        """Adds the output of a sublayer, or the one that replaces it, to the stream."""
        output = self.patched.get(f"{name}.output", output)
        self.values[f"{name}.output"], self.values[f"{name}.residual"] = output, x + output
        return x + output

    def attend(self, name, layer, residual, x, memory=None, causal=False):
        normed = oracles.layer_norm(x, *residual.normalization.get_weights())
        if memory is None:
            memory = normed
            kernel, bias = layer.qkv_projection.get_weights()
            matrices = list(zip(np.split(kernel, 3, axis=-1), np.split(bias, 3), strict=True))
        else:
            matrices = [getattr(layer, f"{part}_projection").get_weights() for part in ("query", "key", "value")]
        moved = [0 if self.on_input else self.positions(len(rows)) for rows in (normed, memory)]
        inputs = normed + moved[0], memory + moved[1], memory
        query, key, value = (
            oracles.heads(oracles.project(rows[None], *matrix), layer.num_heads)[0]
            for rows, matrix in zip(inputs, matrices, strict=True)
        )
        mask = np.tri(len(x), dtype=bool) if causal else None
        weights = oracles.softmax(query @ key.swapaxes(1, 2) / np.sqrt(key.shape[-1]), mask)
        contexts = weights @ value
        if self.removed and self.removed[0] == name:
            contexts[self.removed[1]] = 0
        self.values[f"{name}.weights"], self.values[f"{name}.values"] = weights, value
        kernel, bias = layer.output_projection.get_weights()
        return self.add(name, x, np.concatenate(list(contexts), axis=-1) @ kernel + bias)

    def feed(self, name, block, x):
        inner, inner_bias, outer, outer_bias = block.feed_forward.get_weights()
        normed = oracles.layer_norm(x, *block.feed_forward_residual.normalization.get_weights())
        return self.add(name, x, np.maximum(normed @ inner + inner_bias, 0) @ outer + outer_bias)
