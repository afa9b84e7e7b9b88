"""Makes `tests/exchange/golden`: a tiny random Marian model, and what Hugging Face computes with it.

`python -m tests.benchmarks.marian_golden`, in `.venv-benchmark`.
"""

import json
import shutil
from pathlib import Path

import numpy as np

from tests.benchmarks.marian_folders import Shape, write_folder
from tests.benchmarks.marian_parity import odd_lines, read_lines

GOLDEN = Path(__file__).parents[1] / "exchange" / "golden"
TINY = Shape("tiny", (1, 2), 16, 2, 24, "swish", (95, 105), seed=7, rules=("nmt_nfkc", "identity"))


def main() -> None:
    """Writes the folder anew."""
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    shutil.rmtree(GOLDEN, ignore_errors=True)
    write_folder(GOLDEN / "marian", TINY, read_lines("train.en", 500), read_lines("train.fr", 500), max_length=20)
    torch.set_grad_enabled(False)
    model = MarianMTModel.from_pretrained(GOLDEN / "marian", attn_implementation="eager").eval()
    tokenizer = MarianTokenizer.from_pretrained(GOLDEN / "marian")
    lines = odd_lines(read_lines("test.en", 40), 40)
    forced = read_lines("test.en", 2), read_lines("test.fr", 2)
    decoder = [
        [model.config.decoder_start_token_id, *ids[:-1]] for ids in tokenizer(text_target=forced[1])["input_ids"]
    ]
    arrays = {}
    for number, (text, ids) in enumerate(zip(forced[0], decoder, strict=True)):
        source = tokenizer([text], return_tensors="pt")
        out = model(**source, decoder_input_ids=torch.tensor([ids]), output_attentions=True)
        arrays[f"logits_{number}"] = out.logits[0].numpy()
        attentions = (out.encoder_attentions, out.decoder_attentions, out.cross_attentions)
        for site, layers in zip(("encoder", "decoder", "cross"), attentions, strict=True):
            arrays[f"{site}_{number}"] = torch.stack(layers, 1)[0].numpy()
    np.savez_compressed(GOLDEN / "expected.npz", **arrays)
    searched = {}
    source = tokenizer(lines[:20], padding=True, return_tensors="pt")
    for beams in (1, 4):
        generated = model.generate(**source, num_beams=beams, num_return_sequences=1)
        searched[str(beams)] = [[i for i in row[1:].tolist() if i != model.config.pad_token_id] for row in generated]
    expected = {
        "lines": lines,
        "ids": [ids[:-1] for ids in tokenizer(lines)["input_ids"]],
        "target_ids": [ids[:-1] for ids in tokenizer(text_target=lines)["input_ids"]],
        "forced": forced,
        "searched": searched,
        "texts": [tokenizer.decode(row, skip_special_tokens=True) for row in searched["4"]],
    }
    (GOLDEN / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
