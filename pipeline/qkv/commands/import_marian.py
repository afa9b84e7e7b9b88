"""Makes a run from a Marian or OPUS-MT model: `qkv import_marian FOLDER RUN`."""

import argparse
import sys
from pathlib import Path

from ..config.model import TransformerSettings
from ..errors import invocation
from .cli import ArgumentParser, exit_cleanly, importing_tensorflow


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "import_marian",
        description="Makes a run from a pretrained Marian model, such as a model of OPUS-MT, so that its attention can "
        "be inspected. FOLDER has the files that save_pretrained of Hugging Face's MarianMTModel and MarianTokenizer "
        "write: config.json, vocab.json, source.spm, target.spm, generation_config.json, and the weights as "
        "model.safetensors, tf_model.h5 or, if PyTorch is installed, pytorch_model.bin.",
    )
    parser.add_argument("model", type=Path, metavar="FOLDER", help="folder of the Marian model")
    parser.add_argument("new_run", type=Path, metavar="RUN", help="folder of the new run, such as runs/opus_en_de")
    parser.add_argument(
        "--source_language",
        metavar="CODE",
        help="set the code of the source language, such as en (default: source_lang in tokenizer_config.json)",
    )
    parser.add_argument(
        "--target_language",
        metavar="CODE",
        help="set the code of the target language, such as de (default: target_lang in tokenizer_config.json)",
    )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the folder, writes the run, and prints its sizes and the next commands."""
    options = make_parser().parse_args(arguments)
    languages = {"source": options.source_language, "target": options.target_language}
    with importing_tensorflow():
        from ..exchange.marian_import import import_marian

    config, vocabulary = import_marian(options.model, options.new_run, languages)
    sizes = config.model
    assert isinstance(sizes, TransformerSettings)
    sys.stdout.write(
        f"{options.new_run}: {config.data.source_language} to {config.data.target_language}, {sizes.encoder_layers} + "
        f"{sizes.decoder_layers} layers of width {sizes.d_model}, {len(vocabulary.pieces):,} tokens\n"
    )
    if tags := vocabulary.tags:
        examples = " ".join(tags if len(tags) <= 5 else [*tags[:5], "..."])
        sys.stdout.write(f"its sentences must begin with the language to translate to: {examples}\n")
    sys.stdout.write(
        f"next:\n  {invocation('evaluate', options.new_run)} --source FILE\n"
        f"  {invocation('translate', options.new_run)} < FILE\n"
    )
