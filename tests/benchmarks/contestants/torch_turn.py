"""A turn of training for models of PyTorch, in float32 or by autocast to bfloat16, on a GPU if there is one."""

import torch
from torch import nn

from tests.benchmarks.contestants.training_batch import make_batch


def training_turn(model, settings, logits_of):
    """Makes the turn; `logits_of(source, target_input)` calls the model."""
    torch.set_num_threads(settings["threads"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), fused=True)
    source, target_input, target_output = (torch.from_numpy(ids).long().to(device) for ids in make_batch(settings))
    half = settings["precision"] == "bfloat16"

    def turn():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            logits = logits_of(source, target_input)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), target_output.flatten(), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return {"loss": float(loss.detach())}

    return turn
