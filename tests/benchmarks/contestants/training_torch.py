"""The same Transformer with `torch.nn.Transformer`, in float32 or by autocast to bfloat16, eager or compiled."""

import torch
from torch import nn

from qkv.model.embedding import sinusoidal_positions
from tests.benchmarks.contestants.torch_turn import training_turn


class Translator(nn.Module):
    """One table for source, target and output, as in all contestants."""

    def __init__(self, settings):
        super().__init__()
        width = settings["width"]
        self.scale = width**0.5
        self.table = nn.Embedding(settings["vocabulary"], width)
        self.register_buffer("positions", torch.from_numpy(sinusoidal_positions(settings["length"], width)))
        self.dropout = nn.Dropout(settings["dropout"])
        self.transformer = nn.Transformer(
            width,
            settings["heads"],
            settings["layers"],
            settings["layers"],
            settings["hidden"],
            settings["dropout"],
            batch_first=True,
        )
        future = nn.Transformer.generate_square_subsequent_mask(settings["length"])
        self.register_buffer("future", future)

    def embed(self, ids):
        return self.dropout(self.table(ids) * self.scale + self.positions)

    def forward(self, source, target):
        states = self.transformer(self.embed(source), self.embed(target), tgt_mask=self.future, tgt_is_causal=True)
        return nn.functional.linear(states, self.table.weight)


def prepare(settings):
    """`settings["precision"]` is float32 or bfloat16, `settings["compiled"]` whether by `torch.compile`."""
    model = Translator(settings)
    return training_turn(model, settings, torch.compile(model) if settings.get("compiled") else model)
