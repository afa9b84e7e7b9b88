"""Makes archives of Hugging Face's models, or checks those that are kept: `PYTHONPATH=. .venv-benchmark/bin/python
tests/kept_archives/keep.py [--check]`.

Each is made by the recipe of docs/use/archive.md from a tiny model with random weights, a tokenizer trained on a few
sentences, and gold alignments of the demo. Archives, once kept, are never made anew: later versions must read them.
"""

import filecmp
import sys
import tempfile
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.support.documents import recipe

HERE = Path(__file__).parent
DEMO = HERE.parents[1] / "data" / "demo"
SENTENCES = 5
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
VOCABULARY = 180


def read(language: str) -> list[str]:
    """The first sentences of the demo's test set."""
    with (DEMO / f"test.{language}").open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in islice(lines, SENTENCES)]


def make_tokenizer(byte_level: bool) -> PreTrainedTokenizerFast:
    """A tokenizer as BART's, or as T5's and Marian's."""
    tokenizer = Tokenizer(models.BPE(unk_token=None if byte_level else "<unk>"))
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        shape = "<s> $A </s>"
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        shape = "$A </s>"
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[*SPECIAL.values()], show_progress=False)
    tokenizer.train_from_iterator([*read("en"), *read("fr")], trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single=shape, special_tokens=ids)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def make_model(name: str, tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    """A model with random weights; attention is sharper than usual, so that heads differ."""
    torch.manual_seed(7)
    size = {"vocab_size": len(tokenizer), "d_model": 16, "pad_token_id": 0, "eos_token_id": 2}
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}
    blocks = {f"{side}_{what}": number for side in ("encoder", "decoder") for what, number in sizes.items()}
    if name == "t5":
        layers = {"num_layers": 1, "num_decoder_layers": 2, "num_heads": 3}
        model = T5ForConditionalGeneration(T5Config(**size, **layers, d_kv=6, d_ff=24, decoder_start_token_id=0))
    elif name == "bart":
        model = BartForConditionalGeneration(BartConfig(**size, **blocks, bos_token_id=1, decoder_start_token_id=2))
    else:
        model = MarianMTModel(MarianConfig(**size, **blocks, decoder_start_token_id=0))
    with torch.no_grad():
        for key, weights in model.named_parameters():
            if weights.ndim == 2 and "embed" not in key and "shared" not in key:
                weights.normal_(std=0.5)
    model.set_attn_implementation("eager")
    return model.eval()


def make_archive(name: str, folder: Path) -> None:
    """Runs the recipe, and compares the archive with what the model says when it is asked again."""
    tokenizer = make_tokenizer(byte_level=name == "bart")
    gold = folder.with_suffix(".align")
    with (DEMO / "test.align").open(encoding="utf-8") as lines:
        gold.write_text("".join(islice(lines, SENTENCES)), encoding="utf-8")
    names = {
        "model": make_model(name, tokenizer),
        "tokenizer": tokenizer,
        "pairs": list(zip(read("en"), read("fr"), strict=True)),
        "marks": "byte_level" if name == "bart" else "sentencepiece",
        "folder": folder,
        "gold": gold,
    }
    exec(recipe("import torch"), names)
    gold.unlink()
    for (source, target), weights in zip(names["pairs"], names["weights"], strict=True):
        ids, labels = (torch.tensor([tokenizer(text)["input_ids"]]) for text in (source, target))
        with torch.no_grad():
            attention = names["model"](input_ids=ids, labels=labels, output_attentions=True).cross_attentions
        for layer, expected in enumerate(attention):
            torch.testing.assert_close(torch.tensor(weights[layer]), expected[0])


def main() -> None:
    """Makes the archives, or makes them in another place and compares the files."""
    for name in ("t5", "bart", "marian"):
        if "--check" not in sys.argv:
            make_archive(name, HERE / name)
            continue
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / name
            make_archive(name, made)
            files = [path.name for path in (HERE / name).iterdir()]
            equal, different, unread = filecmp.cmpfiles(HERE / name, made, files, shallow=False)
            print(name, "equal:", *sorted(equal), "different:", *sorted(different + unread))


if __name__ == "__main__":
    main()
