"""Aligns the words of any parallel text: `python -m pipeline.align RUN [REVERSE_RUN] --source FILE --target FILE`."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ArgumentParser, InputError, exit_cleanly
from pipeline.quiet import native_chatter_silenced

if TYPE_CHECKING:
    from pipeline.evaluation.gold_alignment import Choice
    from pipeline.inspection.alignment import Link
    from pipeline.trained_run import TrainedRun

AGREEMENT_PAIRS = 500  # enough to tell heads apart

log = logging.getLogger(__name__)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads, aligns, writes."""
    parser = ArgumentParser(
        prog="python -m pipeline.align",
        description="Aligns the words of a parallel text by a trained run's cross-attention, and writes links in "
        "Pharaoh format, source-target from 0, a line for each pair. With a run of the opposite direction both are "
        "symmetrised. Layer, head and label side are those given, or else chosen on the gold alignments that the run's "
        "config names, or else those on which the two directions agree most.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run from source to target")
    parser.add_argument("reverse", type=Path, nargs="?", metavar="REVERSE_RUN", help="one from target to source")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="sentences, one a line")
    parser.add_argument("--target", type=Path, required=True, metavar="FILE", help="their translations, one a line")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where links are written (default: standard output)"
    )
    parser.add_argument(
        "--symmetrise",
        choices=("grow-diag-final-and", "grow-diag", "intersection", "union"),
        default="grow-diag-final-and",
        help="how two directions become one (default: grow-diag-final-and)",
    )
    for option, meaning in (("at", "RUN"), ("reverse_at", "REVERSE_RUN")):
        parser.add_argument(
            f"--{option}",
            metavar="LAYER,HEAD,SIDE",
            help=f"where {meaning} is read, such as 1,mean,output or 2,0,input",
        )
    options = parser.parse_args(arguments)
    if options.reverse_at and not options.reverse:
        raise InputError("--reverse_at needs REVERSE_RUN, the run that it is of")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with native_chatter_silenced():
        from pipeline.inspection.alignment import write_pharaoh
        from pipeline.inspection.symmetrise import SYMMETRISATIONS
        from pipeline.text.corpus import read_parallel_files
        from pipeline.trained_run import load_run

    corpus = read_parallel_files(options.source, options.target)
    run = load_run(options.run)
    reverse = load_run(options.reverse) if options.reverse else None
    places: list[Choice | None] = [
        _place(text, one) for text, one in ((options.at, run), (options.reverse_at, reverse)) if one
    ]
    source, target = list(corpus.source), list(corpus.target)
    chosen = _choose(run, reverse, places, source, target)
    links: Iterator[set[Link]] = _links(run, chosen[0], source, target)
    if reverse:
        symmetrise = SYMMETRISATIONS[options.symmetrise]
        backward = _links(reverse, chosen[1], target, source)
        links = (symmetrise(a, {(i, j) for j, i in b}) for a, b in zip(links, backward, strict=True))
    if options.output:
        write_pharaoh(options.output, links)
    else:
        for sentence in links:
            sys.stdout.write(" ".join(f"{i}-{j}" for i, j in sorted(sentence)) + "\n")


def _place(text: str | None, run: "TrainedRun") -> "Choice | None":
    """What `LAYER,HEAD,SIDE` says.

    Raises:
        InputError: it is not of that form, or the run has no such layer or head.
    """
    from pipeline.evaluation.gold_alignment import Choice
    from pipeline.inspection.head_alignment import MEAN_HEAD, SIDES

    if text is None:
        return None
    parts = text.split(",")
    head: int | str
    try:
        layer_text, head_text, side = parts
        layer, head = int(layer_text), head_text if head_text == MEAN_HEAD else int(head_text)
    except ValueError:
        side = ""
    if side not in SIDES:
        raise InputError(f"expected LAYER,HEAD,SIDE such as 1,mean,output or 2,0,input, found {text!r}")
    record = next(run.tracer(("cross",)).of_references(["a"], ["a"]))
    layers, heads = record.attention["cross"].shape[:2]
    if not 0 <= layer < layers or not (head == MEAN_HEAD or 0 <= int(head) < heads):
        raise InputError(
            f"{run.directory.root} has {layers} layers of {heads} heads, both counted from 0; found {text!r}"
        )
    return Choice(layer, head, side, "the command line")


def _choose(
    run: "TrainedRun",
    reverse: "TrainedRun | None",
    places: "list[Choice | None]",
    source: list[str],
    target: list[str],
) -> "list[Choice]":
    """Fills in the places that were not given.

    Raises:
        InputError: there is nothing to choose by.
    """
    from pipeline.evaluation.command import choice_set
    from pipeline.evaluation.gold_alignment import Choice, choose_head, head_table
    from pipeline.inspection.agreement import most_agreeing

    runs = [run, reverse] if reverse else [run]
    for i, one in enumerate(runs):
        gold = choice_set(one) if one and places[i] is None else None
        if one and gold:
            places[i] = choose_head(head_table(one.tracer(("cross",)), gold), gold.name)
    if reverse and None in places:
        first = (source[:AGREEMENT_PAIRS], target[:AGREEMENT_PAIRS])
        agreed = most_agreeing(
            run.tracer(("cross",)).of_references(*first), reverse.tracer(("cross",)).of_references(*reversed(first))
        )
        name = f"the two directions' agreement, {100 * agreed.value:.1f} % on {len(first[0])} pairs"
        places = [place or Choice(*found, name) for place, found in zip(places, agreed[:2], strict=True)]
    chosen = [place for place in places if place is not None]
    if len(chosen) < len(places):
        raise InputError(
            f"{run.directory.root}: nothing to choose the layer and head by: give --at LAYER,HEAD,SIDE, or a run of "
            "the opposite direction, or name gold alignments in the run's config (inspection.choose_head_on)"
        )
    for one, place in zip(runs, chosen, strict=True):
        if one:
            log.info(
                "%s: layer %d, head %s, %s side, chosen by %s",
                one.directory.root,
                place.layer,
                place.head,
                place.side,
                place.chosen_on,
            )
    return chosen


def _links(run: "TrainedRun", place: "Choice", source: list[str], target: list[str]) -> "Iterator[set[Link]]":
    return (place.links(record) for record in run.tracer(("cross",)).of_references(source, target))


if __name__ == "__main__":
    sys.exit(main(None))
