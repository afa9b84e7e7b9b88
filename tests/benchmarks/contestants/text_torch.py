"""Updates of PyTorch's `nn.Transformer` on real text, eager or compiled, on a GPU if there is one.

As in qkv: pre-norm, one table for all embeddings, dropout of embeddings and of each sublayer's output, label smoothing,
clipped gradients. Attention is PyTorch's `scaled_dot_product_attention`, products are in bfloat16 by autocast (float16
with a scaled loss where a GPU has no bfloat16), AdamW is the fused one, and all batches are on the device beforehand.
"""

from pathlib import Path

import torch
from torch import nn

from tests.benchmarks.contestants.text_batches import PAD, TextBatch, make_batches, padding, repeated, sinusoids


class Translator(nn.Module):
    """The model, whose result is the loss of a batch, so that `torch.compile` sees all of it."""

    def __init__(self, settings, longest: int) -> None:
        super().__init__()
        width, heads, layers = settings["width"], settings["heads"], settings["layers"]
        self.packed, self.heads, self.scale = settings["rows"] == "packed", heads, width**0.5
        self.table = nn.Embedding(settings["vocabulary"], width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.register_buffer("sinusoids", torch.from_numpy(sinusoids(longest, width)))
        self.dropout = nn.Dropout(settings["dropout"])
        self.transformer = nn.Transformer(
            width, heads, *(layers, layers), settings["hidden"], settings["dropout"], batch_first=True, norm_first=True
        )
        for module in self.transformer.modules():  # weights and hidden units are not dropped, as in qkv
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0

    def embed(self, ids, positions):
        """Returns the sum of embeddings and positions, `(rows, length, width)`."""
        return self.dropout(self.table(ids) * self.scale + self.sinusoids[positions])

    def masks(self, batch: TextBatch, dtype) -> dict[str, torch.Tensor]:
        """Returns the masks by the names that `nn.Transformer` has for them."""
        length = batch.target_input.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=batch.target_input.device).triu(1)
        if not self.packed:
            hidden = batch.source_segments == 0
            return {"src_key_padding_mask": hidden, "memory_key_padding_mask": hidden, "tgt_mask": future}

        def add_heads(hidden):
            """Makes a mask that is added, of -inf where it hides, for each head."""
            added = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill(hidden, float("-inf"))
            return added.repeat_interleave(self.heads, 0)

        source, target = batch.source_segments, batch.target_segments
        within = source[:, :, None] != source[:, None]
        own = (target[:, :, None] != target[:, None]) | future
        across = (target[:, :, None] != source[:, None]) & (target[:, :, None] != 0)  # padding sees all: no empty rows
        return {"src_mask": add_heads(within), "tgt_mask": add_heads(own), "memory_mask": add_heads(across)}

    def forward(self, batch: TextBatch, dtype):
        """Returns the loss, summed over target tokens."""
        states = self.transformer(
            self.embed(batch.source, batch.source_positions),
            self.embed(batch.target_input, batch.target_positions),
            **self.masks(batch, dtype),
            src_is_causal=False,
            tgt_is_causal=not self.packed,
            memory_is_causal=False,
        )
        logits = nn.functional.linear(states, self.table.weight).float().flatten(0, 1)
        return nn.functional.cross_entropy(
            logits, batch.target_output.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
        )


def prepare(settings):
    """`settings["rows"]` is "packed" or "padded"; `settings["compiled"]` the backend of `torch.compile`, "" for none.

    A turn is all batches of the text, as often as takes `settings["turn_seconds"]`.
    """
    torch.set_num_threads(settings["threads"])
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    has_bfloat16 = device == "cpu" or torch.cuda.get_device_capability() >= (8, 0)
    dtype = torch.bfloat16 if has_bfloat16 else torch.float16
    text = make_batches(Path(settings["text"]), settings["rows"], settings["batch_tokens"], settings["pairs"])
    tokens, share = [batch.tokens for batch in text], padding(text)
    batches = [TextBatch(*(torch.from_numpy(array).long().to(device) for array in batch)) for batch in text]
    model = Translator(settings, max(batch.source.shape[1] + batch.target_input.shape[1] for batch in text)).to(device)
    loss_of = torch.compile(model, backend=settings["compiled"]) if settings["compiled"] else model
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, betas=(0.9, 0.98), fused=True)
    scaler = torch.amp.GradScaler(device, enabled=not has_bfloat16)

    def update(batch, count):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype):
            loss = loss_of(batch, dtype) / count
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    def epoch():
        for batch, count in zip(batches, tokens, strict=True):
            loss = update(batch, count)
        return float(loss.detach())  # waits for the device

    return repeated(epoch, tokens, share, settings["turn_seconds"])
