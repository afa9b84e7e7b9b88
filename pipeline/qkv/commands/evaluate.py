"""Evaluates a trained run: `python evaluate.py runs/demo`, or `--help`."""

import argparse
import logging
from dataclasses import replace
from typing import Any

from ..config.choices.inspection import EXPERIMENTS
from ..config.run import TUNED, RunConfig, settings_of_set
from ..errors import InputError, invocation
from ..files.atomic import refuse_folder
from ..files.paths import check_writable
from . import cli

KEPT_BOUND = 0
"""The value of `--confidence` without a chrF."""
SHORT = 0.9  # below this brevity penalty, tuning the length penalty is recommended
log = logging.getLogger(__name__)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "evaluate",
        description="Evaluates a trained run on a set. Writes scores, translations, the attention of every layer and "
        "head, heat maps and a page that shows them to RUN/evaluations/NAME. If the set has gold alignments, it also "
        "writes alignment error rates. Several runs are evaluated as an ensemble: the attention and the alignment "
        "error rates of each model are written to RUN/evaluations/NAME/members/RUN2.",
    )
    cli.add_run_argument(parser)
    cli.add_members_argument(parser)
    parser.add_argument(
        "--set",
        choices=("test", "validation"),
        default="test",
        help="evaluate this set of the run's config (default: test)",
    )
    text_options = parser.add_argument_group("your own text, instead of a set of the config")
    text_options.add_argument(
        "--source", type=cli.text_file, metavar="FILE", help="translate these sentences, one a line"
    )
    text_options.add_argument(
        "--reference",
        type=cli.text_file,
        metavar="FILE",
        help="score the translations against these references, one a line",
    )
    cli.add_normalize_option(text_options)
    cli.add_links_options(text_options)
    parser.add_argument(
        "--name",
        help="write the results to RUN/evaluations/NAME (default: the set or the source file, extended by .forced, "
        ".prefix, .ensemble-with-RUN2 and so on if they apply)",
    )
    cli.add_checkpoint_option(parser)
    cli.add_workers_option(parser)
    parser.add_argument(
        "--forced", action="store_true", help="write the attention over the references instead of the translations"
    )
    cli.add_constraint_options(parser, "; each adds its name to the results' folder")
    cli.add_bleu_option(parser, default="the run's")
    parser.add_argument(
        "--perturb",
        type=cli.whole_number(0, 1_000_000),
        default=0,
        metavar="N",
        help="change each head in turn on the first N sentences, and write how the loss rises to perturbation.csv; "
        "takes six passes a head (default: 0)",
    )
    parser.add_argument(
        "--faithfulness",
        type=cli.whole_number(0, 1_000_000),
        default=0,
        metavar="N",
        help="remove from the first N sentences the tokens that attention points to, or all others, and write the cost "
        "to faithfulness.csv; 200 sentences take minutes (default: 0)",
    )
    parser.add_argument(
        "--tune",
        nargs="?",
        choices=("on", "off"),
        const="on",
        help=f"choose {' and '.join(TUNED)} on the validation set first, and write them to RUN/decoding.yaml, which "
        "every command reads; off: delete that file (default: leave it)",
    )
    parser.add_argument(
        "--confidence",
        nargs="?",
        type=cli.whole_number(1, 100),
        const=KEPT_BOUND,
        metavar="CHRF",
        help="add the confidence of each translation to translations.tsv; with CHRF, first fit it for translations "
        "that are good from this chrF on (default: 60)",
    )
    cli.add_decoding_options(parser)
    return parser


def results_name(options: argparse.Namespace) -> str:
    """Returns the name of the folder for the results: `--name`, or by default the name of the set or of the file.

    The default name gets a suffix for `--forced`, for each constraint and for the other runs of an ensemble, so that
    such results do not replace those of a plain evaluation.
    """
    if options.name is not None:
        return options.name
    text_name = options.source.name if options.source else options.set  # with its suffix: test.en is not the set test
    suffixes = [f".{name}" for name in ("forced", *cli.CONSTRAINTS) if getattr(options, name)]
    other_names = [run.root.absolute().name for run in options.others]
    if other_names:
        suffixes.append(f".ensemble-with-{'-and-'.join(other_names)}")
    return "".join([text_name, *suffixes])


def check_options(options: argparse.Namespace) -> RunConfig:
    """Checks that the options fit each other and the run. Call it before TensorFlow is imported.

    Returns:
        The settings of the run, changed by the options.

    Raises:
        InputError: options contradict each other or the settings of the run, a run cannot be read or has no weights,
            the run does not have the set, or the results cannot be written.
    """
    for name in ("reference", "alignments"):
        if getattr(options, name) and not options.source:
            raise InputError(f"--{name} needs --source, the text that it belongs to")
    cli.check_links_options(options)
    if options.alignments and not options.reference:
        raise InputError("--alignments needs --reference: the links are between those two texts")
    if options.forced and options.source and not options.reference:
        raise InputError("--forced needs --reference, the text that the model is made to read")
    for name in cli.CONSTRAINTS:
        if options.forced and getattr(options, name):
            raise InputError(f"--forced reads whole references, so --{name} has no effect; leave one of them out")
    for name in EXPERIMENTS:
        if getattr(options, name) and options.others:
            raise InputError(f"--{name} is an experiment on one model; evaluate each run of the ensemble by itself")
    if options.tune and options.others:
        raise InputError(
            "--tune: chooses settings for one run; tune the first run by itself: an ensemble uses its settings"
        )
    if options.confidence is not None:
        for name in cli.CONSTRAINTS:
            if getattr(options, name):
                raise InputError(f"--confidence: it is fitted for translations without --{name}; leave one of them out")
    if options.tune:
        options.run.refuse_packaged("--tune")
        refuse_folder(options.run.decoding)
        check_writable(options.run.decoding)
    options.run.check_results()
    name_of_results = results_name(options)
    if problem := options.run.evaluation_name_problem(name_of_results):
        raise InputError(f"--name: {problem}")
    options.run.evaluation(name_of_results).check_writable()
    config = cli.read_search(options, tuned=options.tune != "off")
    if options.tune == "on":
        for name in TUNED:
            if getattr(options, name) is not None:
                raise InputError(f"--{name}: --tune chooses this setting; leave one of the two options out")
        if (search := config.decoding.search) != "beam":
            raise InputError(f"--tune: needs beam search, but decoding.search is {search}; add --search beam")
        if config.data.validation is None:
            raise InputError(f"{options.run.config}: data.validation is null, so --tune has nothing to choose on")
    if not options.source:
        settings_of_set(config, options.set, options.run.config)
    if options.bleu_tokenizer is None:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"bleu_tokenizer": options.bleu_tokenizer})})


def _describe_search(options: argparse.Namespace, config: RunConfig, metrics: dict[str, Any]) -> str | None:
    """Returns the last line of the output, about the search; None if there is no such line.

    If the run has settings from `--tune`, the line names them. Otherwise, if the translations are too short, it
    recommends `--tune`.

    Args:
        options: the options of the command.
        config: the settings of the run, changed by the options.
        metrics: the results, of which `brevity_penalty` is used.
    """
    run = options.run
    if run.decoding.exists():
        if any(getattr(options, name) is not None for name in TUNED):
            return None
        chosen = ", ".join(f"{name} {getattr(config.decoding, name):g}" for name in TUNED)
        return f"search: {chosen}, from {run.decoding}; {invocation('evaluate', run.root, '--tune', 'off')} deletes it"
    can_be_tuned = config.decoding.search == "beam" and config.data.validation is not None
    if metrics.get("brevity_penalty", 1.0) >= SHORT or not can_be_tuned or options.tune == "on":
        return None
    return (
        f"translations are short (brevity penalty {metrics['brevity_penalty']:.3f}); choose a length penalty on the "
        f"validation set: {invocation('evaluate', run.root, '--tune')}"
    )


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the options, evaluates, and prints a short table. TensorFlow is imported once the options are valid."""
    options = make_parser().parse_args(arguments)
    config = check_options(options)
    cli.log_to_output()
    with cli.importing_tensorflow():
        from ..evaluation.confidence import find_confidence
        from ..evaluation.evaluate_set import evaluate_set
        from ..evaluation.printed_table import print_table
        from ..evaluation.request import EvaluationRequest, read_configured_set, read_own_set
        from ..evaluation.tuning import tune
        from ..metrics.bleu import check_bleu_tokenizer
        from ..run.ensemble import load_runs
        from ..text.phrases.sentence_files import ConstraintFiles

    setting = "--bleu_tokenizer" if options.bleu_tokenizer else "data.bleu_tokenizer"
    check_bleu_tokenizer(config.data.scoring_tokenizer, setting)
    roots = [run.root for run in (options.run, *options.others)]
    run = load_runs(roots, options.checkpoint, tuned=options.tune != "off").with_config(config)
    if options.tune == "on":
        tune(run)
        run = run.with_config(check_options(options))
    name = results_name(options)
    if options.source:
        data = read_own_set(
            run,
            name,
            options.source,
            options.reference,
            options.alignments,
            options.first_index,
            normalizes=not options.no_normalize,
        )
    else:
        data = read_configured_set(run, name, options.set)
    longest = run.config.model.max_positions
    constraints = ConstraintFiles(options.prefix, options.require, options.ban, run.target_tokens, longest)
    prefixes, required = constraints.take(len(data.source))
    constraints.check_all_taken()
    request = EvaluationRequest(
        replace(run, banned=constraints.banned),
        replace(data, prefixes=prefixes, required=required),
        options.forced,
        {experiment: getattr(options, experiment) for experiment in EXPERIMENTS if getattr(options, experiment)},
        cli.make_processes(options, run.config),
        None if options.confidence is None else find_confidence(run, options.confidence or None),
    )
    if options.tune == "off":  # only once all files have been read, so that a command that fails deletes nothing
        options.run.decoding.unlink(missing_ok=True)
    metrics = evaluate_set(request)
    print_table(metrics, options.run.evaluation(name).root)
    if note := _describe_search(options, run.config, metrics):
        log.warning(note)
