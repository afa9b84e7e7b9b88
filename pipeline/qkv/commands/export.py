"""Exports a run for other programs: `qkv export RUN FOLDER --format saved_model`."""

import argparse
import logging

from ..config.choices import describe_names
from ..config.run import load_trained_run, with_decoding
from ..exchange.export import BEAM, CHECKED_SENTENCES, EXPORT_FORMATS, QUANTIZATIONS, ExportRequest, write_export
from ..files.atomic import new_folder
from . import cli

log = logging.getLogger(__name__)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "export",
        description="Exports a trained run for another program, into a new folder. As a check, both programs translate "
        "sentences. A model that gives other log-probabilities is not written, and manifest.json in the folder has the "
        "number of equal translations. If the other program does not support a setting of the run, an error names it.",
    )
    cli.add_run_argument(parser)
    parser.add_argument(
        "folder", type=cli.folder_to_write, metavar="FOLDER", help="folder to write, which must not exist yet"
    )
    parser.add_argument(
        "--format", choices=EXPORT_FORMATS, required=True, help=f"write this format. {describe_names(EXPORT_FORMATS)}"
    )
    cli.add_checkpoint_option(parser)
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="with ctranslate2 and argos: store the weights in this number format (default: float32)",
    )
    parser.add_argument(
        "--at",
        metavar="LAYER,HEAD,SIDE",
        help="with saved_model: let its function align read links here, such as 1,mean,output (default: chosen on the "
        "run's gold alignments, or else the guided head or the last layer's mean)",
    )
    parser.add_argument(
        "--sentences",
        type=cli.whole_number(0, 1_000_000),
        default=CHECKED_SENTENCES,
        metavar="NUMBER",
        help="check the export on the first NUMBER sentences of the run's validation set "
        f"(default: {CHECKED_SENTENCES}; 0: no check)",
    )
    cli.add_decoding_options(parser, without=BEAM)
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Exports the run, checks the export, and writes its manifest."""
    options = make_parser().parse_args(arguments)
    request = ExportRequest(options.format, options.quantization, options.at, options.sentences)
    options.run.check_weights(options.checkpoint)
    config = with_decoding(load_trained_run(options.run), vars(options) | BEAM)
    request.check(config, options.run.root, options.folder)
    cli.log_to_output()
    with new_folder(options.folder, "writes this folder") as folder:
        with cli.importing_tensorflow():
            from ..run.trained_run import load_run

        write_export(load_run(options.run.root, options.checkpoint).with_config(config), folder, request)
    log.info("%s: written for %s", options.folder, options.format)
