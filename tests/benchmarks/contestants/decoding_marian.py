"""`generate` of Hugging Face's Marian with our weights, in batches of similar length."""

import tempfile
from pathlib import Path

import torch
from transformers import MarianMTModel

from qkv.exchange.marian_export import write_marian
from qkv.text.batch import pad
from qkv.text.tokens.special_tokens import EOS
from tests.benchmarks.contestants import decoding_text


def prepare(settings):
    """Text in, text out, with our tokenizer; `settings["half"]`: in float16."""
    decoding_text.leave_gpu(settings)
    run, sentences = decoding_text.load(settings)
    torch.set_num_threads(settings["threads"])
    with tempfile.TemporaryDirectory() as folder:
        write_marian(run, Path(folder))
        model = MarianMTModel.from_pretrained(folder).eval()
    device = settings.get("device", "cpu")
    model.to(device, torch.float16 if settings.get("half") else torch.float32)
    model.generation_config.bad_words_ids = None  # it is none of the work that is compared
    model.generation_config.max_length = None

    def turn():
        rows = [[*ids, EOS] for ids in run.tokenizer.encode(sentences)]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        found = [[]] * len(rows)
        for first in range(0, len(order), settings["batch"]):
            batch = order[first : first + settings["batch"]]
            source = torch.from_numpy(pad([rows[i] for i in batch], len(rows[batch[0]]))).long().to(device)
            with torch.inference_mode():
                ids = model.generate(
                    input_ids=source,
                    attention_mask=(source != 0).long(),
                    num_beams=settings["beam"],
                    length_penalty=settings["length_penalty"],
                    max_new_tokens=2 * source.shape[1] + 10,
                )
            for i, row in zip(batch, ids.tolist(), strict=True):
                found[i] = row[1 : row.index(EOS, 1) + 1] if EOS in row[1:] else row[1:]
        decoding_text.write(settings, run.tokenizer.decode(found))
        return {"tokens": sum(map(len, found))}

    return turn
