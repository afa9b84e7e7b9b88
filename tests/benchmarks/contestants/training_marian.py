"""The Marian architecture of Hugging Face, of the same size, with random weights."""

import torch
from torch import nn

from tests.benchmarks.contestants.training_batch import make_batch
from tests.benchmarks.converted import marian_config


def prepare(settings):
    """`settings["precision"]` is float32 or bfloat16."""
    from transformers import MarianMTModel

    torch.set_num_threads(settings["threads"])
    model = MarianMTModel(
        marian_config(
            settings["vocabulary"],
            settings["width"],
            settings["heads"],
            settings["hidden"],
            settings["layers"],
            settings["layers"],
            positions=settings["length"],
            dropout=settings["dropout"],
        )
    ).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), fused=True)
    source, target_input, target_output = (torch.from_numpy(ids).long() for ids in make_batch(settings))
    half = settings["precision"] == "bfloat16"

    def turn():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(input_ids=source, decoder_input_ids=target_input).logits
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), target_output.flatten(), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return {"loss": float(loss.detach())}

    return turn
