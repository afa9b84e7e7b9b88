"""From evaluate.py's command line to an evaluated set, and what it prints."""

import argparse
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..alignment.gold import choice_settings, read_choice_set, read_configured_gold, read_gold_set
from ..config.options import with_decoding_options
from ..errors import InputError
from ..text.corpus import read_corpus, read_parallel_files
from ..text.lines import read_lines
from ..trained_run import TrainedRun, load_run, settings_of_set
from .evaluate_set import EvaluationSet, evaluate_set

log = logging.getLogger(__name__)


def evaluate(options: argparse.Namespace) -> None:
    """Evaluates what the command line asks for.

    Raises:
        InputError: options, files or the run do not fit together.
    """
    _check(options)
    run = load_run(options.run, options.checkpoint)
    run = replace(run, config=with_decoding_options(run.config, options))
    data = _own_set(options, run) if options.source else _set_of_config(options, run)
    metrics = evaluate_set(run, data, force_references=options.forced, perturbed=options.perturb)
    _print_table(metrics, run.directory.evaluation(data.name).root)


def _check(options: argparse.Namespace) -> None:
    for name in ("reference", "alignments"):
        if getattr(options, name) and not options.source:
            raise InputError(f"--{name} needs --source, the text that it belongs to")
    if options.alignments and not options.reference:
        raise InputError("--alignments needs --reference: the links are between those two texts")
    if options.forced and options.source and not options.reference:
        raise InputError("--forced needs --reference, the text that is forced")
    if options.perturb < 0:
        raise InputError(f"--perturb: expected a number of sentences, found {options.perturb}")
    if options.name is not None and (not options.name or options.name.startswith(".") or "/" in options.name):
        raise InputError(
            f"--name: expected the name of a folder, without slashes or a dot in front, found {options.name!r}"
        )


def _own_set(options: argparse.Namespace, run: TrainedRun) -> EvaluationSet:
    name = options.name or options.source.name  # with its suffix: test.en must not replace the results on `test`
    choose_on = read_choice_set(run.config)
    if not options.reference:
        return EvaluationSet(name, list(read_lines(options.source)), choose_on=choose_on)
    corpus = read_parallel_files(options.source, options.reference).in_memory()
    gold = read_gold_set(name, corpus, options.alignments, options.first_index) if options.alignments else None
    return EvaluationSet(name, corpus.source, corpus.target, gold, choose_on)


def _set_of_config(options: argparse.Namespace, run: TrainedRun) -> EvaluationSet:
    settings = settings_of_set(run.config, options.set, run.directory.config)
    corpus = read_corpus(settings).in_memory()
    gold = read_configured_gold(settings, options.set)
    # Chosen and reported on the same pairs, the result must say so: see EvaluationSet.
    choose_on = read_choice_set(run.config) if settings != choice_settings(run.config) else None
    return EvaluationSet(options.name or options.set, corpus.source, corpus.target, gold, choose_on)


def _print_table(metrics: dict[str, Any], folder: Path) -> None:
    rows = [("sentences", f"{metrics['sentences']}")]
    if "bleu" in metrics:
        rows += [
            ("BLEU", f"{metrics['bleu']:.2f}   ({metrics['signatures']['bleu']})"),
            ("chrF", f"{metrics['chrf']:.2f}   ({metrics['signatures']['chrf']})"),
            (
                "length",
                f"{metrics['translation_length']} words for the references' {metrics['reference_length']} "
                f"(brevity penalty {metrics['brevity_penalty']:.3f})",
            ),
            ("loss", f"{metrics['loss']:.4f} nats a token, perplexity {metrics['perplexity']:.3f}"),
            ("token accuracy", f"{metrics['token_accuracy']:.4f}"),
        ]
    if metrics["truncated"]:
        rows.append(("truncated", f"{metrics['truncated']} sentences whose source or translation was cut short"))
    if "alignment" in metrics:
        alignment = metrics["alignment"]
        rows += [
            (
                "AER",
                f"{alignment['aer']:.2f} %   (precision {alignment['precision']:.2f} %, recall "
                f"{alignment['recall']:.2f} %; layer {alignment['layer']}, head {alignment['head']}, "
                f"{alignment['side']} side, {alignment['linked']} links, chosen on {alignment['chosen_on']})",
            ),
            (
                "  for comparison",
                f"{alignment['diagonal_aer']:.2f} % for the diagonal, {alignment['random_aer']:.2f} % for random links",
            ),
        ]
    rows.append(("seconds", f"{metrics['seconds']:.1f}"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        log.info("%-*s  %s", width, name, value)
    log.info("results: %s", folder)
    pictures = [f"open {folder / 'viewer.html'} in a browser"]
    log.info("next:\n  %s", "\n  ".join([*pictures, f"tensorboard --logdir {folder.parents[2]}"]))
