"""Random Marian models through `qkv.commands.import_marian`, beside Hugging Face's MarianMTModel and MarianTokenizer.

`python -m tests.benchmarks.marian_parity [--shapes silu,relu]`, in `.venv-benchmark`.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from qkv.runtime.import_tensorflow import importing_tensorflow
from tests.benchmarks.marian_folders import SHAPES, TAGS, Shape, write_folder

ROOT = Path(__file__).parents[2]
ODD = (
    "  two  spaces ",
    "\t",
    "a\u00a0b\u3000c",
    "漢字 unknown",
    "ﬁne ½ Ⅻ",
    "</s> inside",
    "<pad> <unk>",
    "e\u0301",
    "🙂 ok",
    ">>xx<<",
)


def read_lines(name: str, count: int) -> list[str]:
    """The first lines of a file of the demo."""
    lines = (ROOT / "data" / "demo" / name).read_text(encoding="utf-8").splitlines()
    return lines[:count]


def odd_lines(lines: list[str], count: int) -> list[str]:
    """Lines with tags, unknown characters and odd spaces here and there."""
    draw = random.Random(1)
    found = []
    for number in range(count):
        words = lines[number % len(lines)].split()
        for _ in range(draw.randrange(3)):
            words.insert(draw.randrange(len(words) + 1), draw.choice(ODD))
        tag = draw.choice(["", f"{TAGS[0]} ", TAGS[1], " >>fra<< ", ">>nld<< ", ">>fra<<>>deu<< "])
        found.append(tag + draw.choice([" ", " ", "  ", "\u2009"]).join(words))
    return found


def compare(shape: Shape, folder: Path) -> dict[str, float | int | str]:
    """Imports a random model, and returns how far the two are apart."""
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    from qkv.commands.import_marian import main
    from qkv.run.trained_run import load_run

    write_folder(folder / "marian", shape, read_lines("train.en", 2000), read_lines("train.fr", 2000))
    assert main([str(folder / "marian"), str(folder / "run")]) == 0
    run = load_run(folder / "run")
    theirs = MarianMTModel.from_pretrained(folder / "marian", attn_implementation="eager").eval()
    tokenizer = MarianTokenizer.from_pretrained(folder / "marian")
    torch.set_grad_enabled(False)
    sentences = odd_lines(read_lines("test.en", 500), 2000)
    numbers = Numbers(folder / "marian", run, shape)
    expected = [numbers.ours_of_source(ids[:-1]) for ids in tokenizer(sentences)["input_ids"]]
    same = sum(a == b for a, b in zip(expected, run.tokenizer.encode(sentences), strict=True))
    targets = odd_lines(read_lines("test.fr", 500), 2000)
    of_target = [numbers.ours_of_target(ids[:-1]) for ids in tokenizer(text_target=targets)["input_ids"]]
    same_targets = sum(a == b for a, b in zip(of_target, run.tokenizer.of_target.encode(targets), strict=True))
    return {
        "shape": shape.name,
        "ids": same,
        "target_ids": same_targets,
        **compare_numbers(run, theirs, tokenizer, numbers, sentences[:32], targets[:32]),
        **compare_translations(run, theirs, tokenizer, numbers, read_lines("test.en", 200)),
    }


class Numbers:
    """Ids of one numbering in the other."""

    def __init__(self, folder: Path, run, shape: Shape) -> None:
        source = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        target = json.loads((folder / "target_vocab.json").read_text(encoding="utf-8")) if shape.separate else source
        pieces = run.tokenizer.pieces(range(run.tokenizer.vocabulary_size))
        ours = {piece: number for number, piece in enumerate(pieces) if number != 2}
        self.source, self.target = (
            {number: ours[piece] for piece, number in side.items()} for side in (source, target)
        )

    def ours_of_source(self, ids) -> list[int]:
        return [self.source[int(token)] or 2 for token in ids]  # PAD in a text has BOS' id

    def ours_of_target(self, ids) -> list[int]:
        return [self.target[int(token)] or 2 for token in ids]


def compare_numbers(run, theirs, tokenizer, numbers: Numbers, sentences, targets) -> dict[str, float]:
    """The largest differences of logits and of attention, over a padded batch that is forced."""
    import torch

    from qkv.decoding.forced import forced_pass
    from qkv.text.batch import forced_batch

    source = tokenizer(sentences, padding=True, return_tensors="pt", truncation=True)
    source_rows = [
        row[mask.bool()].tolist()[:-1] for row, mask in zip(source.input_ids, source.attention_mask, strict=True)
    ]
    target_rows = [row[:-1] for row in tokenizer(text_target=targets)["input_ids"]]
    config = theirs.config
    longest = max(map(len, target_rows)) + 1
    decoder = torch.tensor(
        [
            [config.decoder_start_token_id, *row, *[config.pad_token_id] * (longest - len(row) - 1)]
            for row in target_rows
        ]
    )
    out = theirs(**source, decoder_input_ids=decoder, output_attentions=True)
    batch = forced_batch(
        [
            ([int(t) for t in numbers.ours_of_source(a)], [*numbers.ours_of_target(b), 3])
            for a, b in zip(source_rows, target_rows, strict=True)
        ]
    )
    ours = forced_pass(
        run.model, batch.source, batch.target_input, batch.target_output, ("cross", "encoder", "decoder")
    )
    logits = run.model(batch.source, batch.target_input, training=False).numpy()
    columns = [numbers.target[number] for number in range(out.logits.shape[-1])]
    apart = {"logits": 0.0, "encoder": 0.0, "decoder": 0.0, "cross": 0.0}
    attentions = {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions, "cross": out.cross_attentions}
    for i, (a, b) in enumerate(zip(source_rows, target_rows, strict=True)):
        s, t = len(a) + 1, len(b) + 1
        difference = logits[i, :t][:, columns] - out.logits[i, :t].numpy()
        apart["logits"] = max(apart["logits"], float(np.abs(difference).max()))
        for site, layers in attentions.items():
            rows, keys = (s, s) if site == "encoder" else (t, t) if site == "decoder" else (t, s)
            for layer, weights in enumerate(layers):
                found = ours.attention[site][i, layer, :, :rows, :keys].numpy()
                apart[site] = max(apart[site], float(np.abs(found - weights[i, :, :rows, :keys].numpy()).max()))
    return apart


def compare_translations(run, theirs, tokenizer, numbers: Numbers, sentences) -> dict[str, int]:
    """How many of 200 sentences get the same ids, and how many the same text, greedily and with beams of 4 and 6."""
    from dataclasses import replace

    equal = {}
    source = tokenizer(sentences, padding=True, return_tensors="pt")
    for beams in (1, 4, 6):
        generated = theirs.generate(**source, num_beams=beams)
        special = {theirs.config.pad_token_id}
        expected = [numbers.ours_of_target([t for t in row[1:].tolist() if t not in special]) for row in generated]
        decoding = run.config.decoding.model_copy(update={"beam_size": beams})
        one = replace(run, config=run.config.model_copy(update={"decoding": decoding}))
        found = one.translator.translate(sentences)
        name = f"beam_{beams}" if beams > 1 else "greedy"
        equal[name] = sum(a == b.ids for a, b in zip(expected, found, strict=True))
        texts = tokenizer.batch_decode(generated, skip_special_tokens=True)
        known = [(a, b.text) for a, b in zip(texts, found, strict=True) if 1 not in b.ids]
        equal[f"{name}_text"] = sum(a == b for a, b in known) + len(texts) - len(known)
        equal[f"{name}_ended"] = sum(len(a) < theirs.generation_config.max_length - 1 for a in expected)
    return equal


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default=",".join(shape.name for shape in SHAPES))
    options = parser.parse_args(arguments)
    with importing_tensorflow():
        import tensorflow as tf  # noqa: F401
    names = options.shapes.split(",")
    for shape in (shape for shape in SHAPES if shape.name in names):
        with tempfile.TemporaryDirectory() as folder:
            started = time.monotonic()
            result = compare(shape, Path(folder))
            print(json.dumps({**result, "seconds": round(time.monotonic() - started)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
