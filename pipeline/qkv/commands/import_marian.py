"""Makes a run of a Marian or OPUS-MT model: `qkv import_marian FOLDER RUN`."""

import argparse
import sys
from pathlib import Path

from ..config.model import TransformerSettings
from ..errors import invocation
from ..runtime.import_tensorflow import importing_tensorflow
from .cli import ArgumentParser, exit_cleanly


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "import_marian",
        description="Makes a run of a pretrained Marian model, such as one of OPUS-MT, so that its attention can be "
        "looked at. FOLDER is what save_pretrained of Hugging Face's MarianMTModel and MarianTokenizer wrote: "
        "config.json, vocab.json, source.spm, target.spm, generation_config.json, and the weights as "
        "model.safetensors or tf_model.h5, or as pytorch_model.bin where PyTorch is installed.",
    )
    parser.add_argument("model", type=Path, metavar="FOLDER", help="folder of the Marian model")
    parser.add_argument("new_run", type=Path, metavar="RUN", help="folder of the run to make, such as runs/opus_en_de")
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}_language",
            metavar="CODE",
            help=f"code of the {side} language, such as en (default: {side}_lang of tokenizer_config.json)",
        )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the folder, writes the run, and says how to go on."""
    options = make_parser().parse_args(arguments)
    given = {side: getattr(options, f"{side}_language") for side in ("source", "target")}
    with importing_tensorflow():
        from ..exchange.marian_import import import_marian

    config, vocabulary = import_marian(options.model, options.new_run, given)
    sizes = config.model
    assert isinstance(sizes, TransformerSettings)
    sys.stdout.write(
        f"{options.new_run}: {config.data.source_language} to {config.data.target_language}, {sizes.encoder_layers} + "
        f"{sizes.decoder_layers} layers of width {sizes.d_model}, {len(vocabulary.pieces):,} tokens\n"
    )
    if tags := vocabulary.tags:
        shown = " ".join(tags if len(tags) <= 5 else [*tags[:5], "..."])
        sys.stdout.write(f"its sentences must begin with the language to translate to: {shown}\n")
    sys.stdout.write(
        f"next:\n  {invocation('evaluate', options.new_run)} --source FILE\n"
        f"  {invocation('translate', options.new_run)} < FILE\n"
    )
