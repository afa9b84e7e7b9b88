"""Evaluates a trained run: `python evaluate.py runs/demo`, or `--help`."""

import argparse
from pathlib import Path

from ..config.ensemble import check_members_search, results_name
from ..config.names import describe
from ..config.names.translation import BLEU_TOKENIZERS
from ..config.run import load_started_run, settings_of_set, with_decoding
from ..errors import InputError, invocation
from ..files.paths import name_problem
from ..files.run_directory import RunDirectory
from ..run.processes import check_spreadable
from ..runtime.import_tensorflow import importing_tensorflow
from .cli import (
    ArgumentParser,
    add_checkpoint_option,
    add_decoding_options,
    add_given_options,
    add_members_argument,
    add_normalize_option,
    add_run_argument,
    add_workers_option,
    check_required,
    exit_cleanly,
    log_to_output,
    whole_number,
)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        prog=invocation("evaluate"),
        description="Evaluates a trained run on a set. Writes scores, translations, the attention of every layer and "
        "head, heat maps, a page that shows them and, if there are gold alignments, alignment error rates to "
        "RUN/evaluations/NAME. With several runs it evaluates their ensemble; attention and alignment error rates are "
        "those of each model by itself, in RUN/evaluations/NAME/members/RUN2.",
    )
    add_run_argument(parser)
    add_members_argument(parser)
    parser.add_argument(
        "--set",
        choices=("test", "validation"),
        default="test",
        help="the set of the run's config to evaluate (default: test)",
    )
    _add_own_text(parser)
    parser.add_argument(
        "--name",
        help="name of the results' folder (default: the set's or the source file's; with --forced, .forced is added, "
        "with further runs .ensemble-with-RUN2-and-RUN3)",
    )
    add_checkpoint_option(parser)
    add_workers_option(parser)
    parser.add_argument(
        "--forced", action="store_true", help="write the attention over the references instead of the translations"
    )
    add_given_options(parser, ", with which the results' folder is SET.prefix, SET.require, SET.ban")
    _add_measures(parser)
    add_decoding_options(parser)
    return parser


def _add_measures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bleu_tokenizer",
        choices=list(BLEU_TOKENIZERS),
        metavar="NAME",
        help=f"how sacreBLEU splits text into words (default: the run's). {describe(BLEU_TOKENIZERS)}",
    )
    parser.add_argument(
        "--perturb",
        type=whole_number(0, 1_000_000),
        default=0,
        metavar="N",
        help="also replace the attention or the output of each head in turn on the first N sentences, and write the "
        "resulting rise of the loss to perturbation.csv; takes six passes per head (default: 0, none)",
    )
    parser.add_argument(
        "--faithfulness",
        type=whole_number(0, 1_000_000),
        default=0,
        metavar="N",
        help="also take away from the first N sentences the source tokens that attention says matter, or all others, "
        "and write to faithfulness.csv what that costs, beside gold links, gradients and chance; 200 sentences take "
        "minutes (default: 0, none)",
    )


def _add_own_text(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("text of your own, instead of a set of the config")
    own.add_argument("--source", type=Path, metavar="FILE", help="sentences to translate, one per line")
    own.add_argument("--reference", type=Path, metavar="FILE", help="their reference translations, one per line")
    add_normalize_option(own)
    own.add_argument("--alignments", type=Path, metavar="FILE", help="their gold word alignments, in Pharaoh format")
    own.add_argument(
        "--first_index",
        type=int,
        choices=(0, 1),
        default=0,
        help="number of the first word in --alignments (default: 0)",
    )


def check_options(options: argparse.Namespace) -> None:
    """Checks that options fit together and to the run, before TensorFlow is loaded.

    Raises:
        InputError: they do not, or the run has no such set.
    """
    for name in ("reference", "alignments"):
        if getattr(options, name) and not options.source:
            raise InputError(f"--{name} needs --source, the text that it belongs to")
    if options.alignments and not options.reference:
        raise InputError("--alignments needs --reference: the links are between those two texts")
    if options.forced and options.source and not options.reference:
        raise InputError("--forced needs --reference, the text that the model is made to read")
    for name in ("prefix", "require", "ban"):
        if options.forced and getattr(options, name):
            raise InputError(f"--forced reads whole references, so --{name} has no effect; leave one of them out")
    if options.perturb and options.others:
        raise InputError("--perturb replaces heads of one model; evaluate each run of the ensemble by itself")
    if options.faithfulness and options.others:
        raise InputError("--faithfulness measures one model's attention; evaluate each run of the ensemble by itself")
    if problem := name_problem(name := results_name(options)):
        raise InputError(f"--name: {problem}")
    directory = RunDirectory.open(options.run)
    directory.evaluation(name).check_writable()
    config = with_decoding(load_started_run(directory.config), vars(options))
    check_members_search(config, options.others)
    check_required(config, options)
    check_spreadable(config, options.workers)
    if not options.source:
        settings_of_set(config, options.set, directory.config)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the command line, evaluates, and prints a short table. TensorFlow is loaded after `--help`."""
    options = make_parser().parse_args(arguments)
    check_options(options)
    log_to_output()
    with importing_tensorflow():
        from ..evaluation.evaluate_set import evaluate_set
        from ..evaluation.printed_table import print_table
        from ..evaluation.request import read_request

    request = read_request(options)
    metrics = evaluate_set(request)
    print_table(metrics, request.run.directory.evaluation(request.data.name).root)
