"""The same Transformer with `torch.nn.Transformer`, in float32 or by autocast to bfloat16, eager or compiled."""

import torch
from torch import nn

from pipeline.model.embedding import sinusoidal_positions
from tests.benchmarks.contestants.training_batch import make_batch


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
    torch.set_num_threads(settings["threads"])
    model = Translator(settings)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), fused=True)
    source, target_input, target_output = (torch.from_numpy(ids).long() for ids in make_batch(settings))
    call = torch.compile(model) if settings.get("compiled") else model
    half = settings["precision"] == "bfloat16"

    def turn():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = call(source, target_input)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), target_output.flatten(), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return {"loss": float(loss.detach())}

    return turn
