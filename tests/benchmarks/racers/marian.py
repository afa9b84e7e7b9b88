"""Hugging Face's MarianMTModel, trained from scratch from a small MarianConfig.

The loop is PyTorch's usual one: AdamW, a learning rate that rises over the first twentieth of the time and then falls
linearly to zero at its end (the default schedule of Hugging Face's Trainer), labels smoothed by 0.1, bfloat16 autocast.
"""

from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel

from tests.benchmarks.racers.batches import token_batches
from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.pieces import EOS, PAD, encode_pairs, train_pieces

PACKAGES = ("transformers", "torch", "sentencepiece")
BEAM = 5
VOCABULARY = 5000
BATCH_TOKENS = 2048
LEARNING_RATE = 1e-3
WARMUP = 0.05  # of the time
BFLOAT16 = True


def make_model() -> MarianMTModel:
    """The model, its sizes reduced for 29,000 pairs."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            d_model=256,
            encoder_layers=3,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=512,
            decoder_ffn_dim=512,
            dropout=0.2,
            activation_function="relu",
            max_position_embeddings=256,
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=PAD,
        )
    )


def pad(rows: list[list[int]], filling: int = PAD) -> torch.Tensor:
    """Rows of ids as a matrix."""
    longest = max(map(len, rows))
    return torch.tensor([row + [filling] * (longest - len(row)) for row in rows])


def train(clock: Clock, text: Path) -> int:
    """Trains until the time is over."""
    torch.manual_seed(1)
    pairs = encode_pairs(train_pieces(text, clock.folder / "pieces.model", VOCABULARY), text)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    model.train()
    for batch in token_batches(pairs, BATCH_TOKENS, seed=1):
        source, target = (pad([pairs[i][side] for i in batch]) for side in (0, 1))
        share = clock.share()
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(share / WARMUP, (1 - share) / (1 - WARMUP))
        labels = target.masked_fill(target == PAD, -100)
        with torch.autocast("cpu", torch.bfloat16, enabled=BFLOAT16):
            start = torch.cat([torch.full_like(target[:, :1], PAD), target[:, :-1]], 1)
            logits = model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=start).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if not clock.after_update(int((target != PAD).sum()), model.save_pretrained):
            break
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@torch.no_grad()
def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates by `generate`, sentences of like length together, in float32."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(checkpoint.parents[1] / "pieces.model"))
    model = MarianMTModel.from_pretrained(checkpoint).eval()
    rows = pieces.encode(sentences, add_eos=True)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    translations = [""] * len(rows)
    for first in range(0, len(order), 64):
        batch = order[first : first + 64]
        source = pad([rows[i] for i in batch])
        found = model.generate(
            input_ids=source, attention_mask=source != PAD, num_beams=beam, max_new_tokens=100, do_sample=False
        )
        for i, ids in zip(batch, found.tolist(), strict=True):
            translations[i] = pieces.decode([one for one in ids if one not in (PAD, EOS)])
    return translations
