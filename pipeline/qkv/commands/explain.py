"""Explains a trained run in numbers: `qkv explain [RUN] --sentence "..."`, `--change` or `--pronouns FILE`."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.choices.inspection import SITES, site_name
from ..config.run import load_trained_run
from ..errors import InputError, did_you_mean, quoted
from ..files.atomic import output_when_done
from ..files.run_directory import RunDirectory, default_run
from ..files.written import refuse_input
from ..text.tokens.special_tokens import WORD_START
from . import cli

if TYPE_CHECKING:
    import pandas as pd

    from ..inspection.experiments.row_steps import RowSteps
    from ..run.trained_run import TrainedRun
    from ..text.tokens.tokenizer import Tokenizer

LARGEST_INDEX = 1_000_000  # the largest number of a layer or head that the options allow
BAR_LENGTH = 40  # characters of the longest bar
ALONE_NOTE = "; alone: the token that this vector alone would predict"
CHANGE_NOTES = """\
An indented line is a control of the change above it: it changes the same part as much, but by chance. It is the mean of
{draws} draws, with seeds 0 to {last}. "less control" is the change minus its control. If the interval contains 0,
the change keeps no more than chance does.
This is surgery, not a verdict on the design. The model learnt with all its matrices and was not trained again after a
change. A model that learns with the change from the start may do as well: docs/learn/surgery.md compares both.
"""
EXPLAINED_SITES = [name for name, site in SITES.items() if site.weighed_at.startswith(name)]


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "explain",
        description="Explains a trained Transformer in numbers. --sentence prints how one row of attention of one head "
        "is computed, step by step, with the line of NumPy for each step, and splits the logit of the token into its "
        "parts. --change counts the next tokens that are still right when one part of the cross-attention is changed. "
        "--pronouns finds the heads that attend from a pronoun to its noun. --page writes a page to play with.",
    )
    cli.add_default_run_argument(parser, "run", "?", "folder of a trained run")
    cli.add_checkpoint_option(parser)
    row = parser.add_argument_group("one row of attention")
    row.add_argument(
        "--sentence",
        metavar="TEXT",
        help="explain how this source sentence is translated (default: the shortest of the run's probes, unless "
        "something else is asked for)",
    )
    row.add_argument("--target", metavar="TEXT", help="explain this translation of it (default: the run's translation)")
    row.add_argument(
        "--token",
        metavar="TOKEN",
        help="explain the row of this word or token; if it occurs several times, give its position, counted from 0 "
        "(default: the token in the middle)",
    )
    row.add_argument(
        "--site",
        type=site_name,
        choices=EXPLAINED_SITES,
        default="cross",
        help="explain the cross-attention, or the self-attention of the encoder or decoder (default: cross)",
    )
    row.add_argument(
        "--layer",
        type=cli.whole_number(0, LARGEST_INDEX),
        help="explain this layer, counted from 0 (default: the last)",
    )
    row.add_argument(
        "--head",
        type=cli.whole_number(0, LARGEST_INDEX),
        default=0,
        help="explain this head, counted from 0 (default: 0)",
    )
    row.add_argument(
        "--arrays",
        type=cli.file_to_write,
        metavar="FILE",
        help="write the arrays that the lines of NumPy need to this .npz file",
    )
    model_options = parser.add_argument_group("the whole model")
    model_options.add_argument(
        "--change",
        action="store_true",
        help="count the next tokens of the test set that are still right when the cross-attention is changed",
    )
    model_options.add_argument(
        "--pronouns",
        type=cli.text_file,
        metavar="FILE",
        help="find the encoder's heads that attend from a pronoun to its noun, in the sentences of a table such as "
        "data/demo/pronouns.tsv",
    )
    model_options.add_argument(
        "--page",
        type=cli.file_to_write,
        metavar="FILE",
        help="write one HTML file instead, which contains the model and shows offline, with sentences that you type, "
        "what queries, keys and values are",
    )
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Loads the run, and prints the explanations that the options ask for."""
    options = make_parser().parse_args(arguments)
    options.run = options.run or RunDirectory.open(default_run())
    for name in ("target", "token", "arrays"):
        if getattr(options, name) is not None and options.sentence is None:
            raise InputError(f"--{name} needs --sentence, the sentence that it belongs to")
    asked = options.sentence is not None or options.change or options.pronouns
    if not (asked or options.page):
        options.sentence = asked = _example_sentence(options.run)
    if asked and options.page:
        raise InputError("--page writes a file instead: expected it without --sentence, --change and --pronouns")
    if options.arrays and options.arrays.suffix != ".npz":
        raise InputError(f"--arrays: expected a name that ends in .npz, found {str(options.arrays)!r}")
    if options.arrays:
        refuse_input(options.arrays, [*options.run.inputs, *filter(None, [options.pronouns])], "--arrays")
    with cli.importing_tensorflow():
        from ..run.trained_run import load_run

    run = load_run(options.run.root, options.checkpoint)
    if options.page:
        from ..live.explain_page import write_explain_page

        write_explain_page(run, options.page)
        sys.stdout.write(f"{options.page}\n")
        return
    reports = [] if options.sentence is None else [_explain_sentence(run, options)]
    reports += [_explain_changes(run)] if options.change else []
    reports += [_explain_pronouns(run, options.pronouns)] if options.pronouns else []
    sys.stdout.write("\n".join(reports))


def _example_sentence(run: RunDirectory) -> str:
    """Returns the shortest sentence of a run's `inspection.probes`; raises an `InputError` if there is none."""
    probes = load_trained_run(run).inspection.probes
    if not probes:
        raise InputError('expected what to explain: --sentence "...", --change, --pronouns FILE or --page FILE')
    return min((probe.source for probe in probes), key=len)


def _explain_sentence(run: "TrainedRun", options: argparse.Namespace) -> str:
    """Returns the text for `--sentence`: the steps of a row, and the parts of the logit of the token that it predicts.

    If `--arrays` is given, the arrays of the row are written into this file.

    Raises:
        InputError: the sentence has no tokens, or `--token` does not match exactly one token.
    """
    from ..inspection.experiments.activations import read_ids
    from ..inspection.experiments.logit_parts import split_logit
    from ..inspection.experiments.row_steps import row_steps
    from ..inspection.experiments.score_parts import layer_name, shared_float64

    sentence = options.sentence if options.target is None else (options.sentence, options.target)
    pair, predicted = read_ids(run.translator, sentence)
    if len(pair[0]) == 1:  # EOS
        raise InputError(f"--sentence: expected a sentence, found {options.sentence!r:.60}, which has no tokens")
    pieces = run.tokenizer.pieces
    source_ids, input_ids = pair
    source = pieces(source_ids)
    target_input = pieces(input_ids)
    target_output = pieces(predicted)
    in_encoder = options.site == "encoder"
    if options.token is None:
        row = len(source if in_encoder else target_output) // 2
    elif in_encoder:
        row = _find_token(options.token, source_ids, run.tokenizer)
    else:
        row = _find_token(options.token, predicted, run.tokenizer.of_target)
    layers = len(run.model.attention_layers().get(options.site, ())) or 1
    layer = layer_name(SITES[options.site].weighed_at, layers - 1 if options.layer is None else options.layer)
    model = shared_float64(run.model, run.graphs)
    steps = row_steps(model, pair, layer, options.head, row, predicted[min(row, len(predicted) - 1)])
    if in_encoder:
        row_title = f"the state of {source[row]}"
    else:
        row_title = f"after {target_input[row]}, the decoder predicts {target_output[row]}"
    lines = [
        f"source       {' '.join(source)}",
        f"translation  {' '.join(target_output)}",
        f"{layer}, head {options.head}, row {row}: {row_title}",
        "",
        _keys_table(steps, target_input if options.site == "decoder" else source, pieces).to_string(index=False),
        "|v@W_o|: the length of the vector that the value adds if it gets all the weight"
        + (ALONE_NOTE if "alone" in steps.values else ""),
        "",
        *_step_lines(steps, options.arrays),
    ]
    if not in_encoder:
        lines += ["", *_logit_lines(split_logit(model, pair, row, predicted[row]), source, target_output[row])]
    if options.arrays:
        import numpy as np

        with output_when_done(options.arrays) as temporary:
            np.savez(temporary, allow_pickle=False, **dict(steps.arrays))
    return "\n".join(lines) + "\n"


def _find_token(text: str, ids: Sequence[int], tokenizer: "Tokenizer") -> int:
    """Returns the position of a token in a sentence.

    Args:
        text: the position from 0, the token, or a word. For a word of several tokens, the result is the position of
            its first token.
        ids: the token ids of the sentence.
        tokenizer: the tokenizer of the sentence's language.

    Raises:
        InputError: the text matches no token, or several.
    """
    tokens = tokenizer.pieces(ids)
    if re.fullmatch("[0-9]{1,9}", text) and int(text) < len(tokens):
        return int(text)
    positions = [position for position, token in enumerate(tokens) if token == text]
    if not positions:
        (word,) = tokenizer.encode([text])
        starts = range(len(ids)) if word else ()
        positions = [start for start in starts if list(ids[start : start + len(word)]) == list(word)]
    if len(positions) == 1:
        return positions[0]
    if positions:
        listed = ", ".join(f"{position} ({tokens[position]})" for position in positions)
        raise InputError(f"--token: {text!r} fits {len(positions)} tokens; give the position of one: {listed}")
    raise InputError(
        f"--token: expected a word or token of {' '.join(tokens)}, or a position from 0 to {len(tokens) - 1}, found "
        f"{quoted(text)}{did_you_mean(text, [token.lstrip(WORD_START) for token in tokens])}"
    )


def _keys_table(steps: "RowSteps", tokens: Sequence[str], pieces: Any) -> "pd.DataFrame":
    """Returns a table with a row for each key of a row of attention.

    Its columns are the token, the product with the query, the score, the weight, and the length of the projected value.
    If the steps have it, there is also the column `alone`.

    Args:
        steps: the steps of the row of attention.
        tokens: the tokens of the keys, and perhaps of later positions.
        pieces: a function that converts a list of token ids to tokens.
    """
    import numpy as np
    import pandas as pd

    values = steps.values
    is_scaled = not np.array_equal(values["scores"], values["products"])
    score_title = f"/sqrt({values['q'].size})" if is_scaled else "score"
    table = pd.DataFrame(
        {
            "token": tokens[: len(values["weights"])],
            "q.k": [f"{x:.2f}" for x in values["products"]],
            score_title: [f"{x:.2f}" for x in values["scores"]],
            "weight": [f"{x:.3f}" for x in values["weights"]],
            "|v@W_o|": [f"{x:.1f}" for x in np.linalg.norm(values["v"] @ steps.arrays["W_o"], axis=-1)],
        }
    )
    if "alone" in values:
        table["alone"] = pieces(values["alone"].argmax(axis=-1).tolist())
    return table


def _step_lines(steps: "RowSteps", arrays: Path | None) -> Iterator[str]:
    """Yields the lines of a NumPy program that computes the row of attention, with comments about each result.

    Args:
        steps: the steps of the row.
        arrays: the file from which the program loads the arrays; None leaves this line out.
    """
    import numpy as np

    from ..inspection.experiments.row_steps import FUNCTIONS

    yield "import math\nimport numpy as np"
    if arrays:
        yield f"globals().update(np.load({str(arrays)!r}))"
    yield from (step.line for step in FUNCTIONS)
    yield f"#   before, the state that enters the layer: length {np.linalg.norm(steps.arrays['before']):.2f}"
    yield f"#   other_heads, what they add: length {np.linalg.norm(steps.arrays['other_heads']):.2f}"
    for step in steps.steps:
        value = steps.values[step.name]
        size = f"{value:.4f}" if np.ndim(value) == 0 else f"{' x '.join(map(str, value.shape))} numbers"
        if np.ndim(value) == 1 and step.name != "weights":
            size += f", length {np.linalg.norm(value):.2f}"
        yield f"{step.line}\n#   {step.meaning}: {size}"


def _logit_lines(parts: "pd.DataFrame", source: Sequence[str], token: str) -> Iterator[str]:
    """Yields lines with the parts that add up to a token's logit, less the mean logit of all tokens.

    The part of cross-attention is also divided by source token, with a bar for each.

    Args:
        parts: the table of `inspection.experiments.logit_parts.split_logit`.
        source: the source tokens.
        token: the predicted token.
    """
    yield f"logit of {token}, less the mean of all tokens: {parts['difference'].sum():.2f}, the sum of"
    by_part = parts.groupby("part", sort=False)["difference"].sum()
    for name, value in by_part[by_part != 0].items():
        yield f"  {value:7.2f}  {name}"
    source_parts = parts[parts["source"] >= 0]
    if len(source_parts):
        yield "of the cross-attention, by source token"
        by_token = source_parts.groupby("source")["difference"].sum()
        for position, value in zip(by_token.index.to_list(), by_token, strict=True):
            bar = "#" * round(BAR_LENGTH * max(value, 0) / max(by_token.max(), 1e-9))
            yield f"  {value:7.2f}  {source[position]:<15} {bar}".rstrip()


def _explain_changes(run: "TrainedRun") -> str:
    """Returns the text for `--change`: the share of next tokens of the test set that the model predicts correctly.

    There is a line for each change of the cross-attention, and below it a line for each of its controls; see
    `inspection.experiments.changed_mechanism`.
    """
    from ..evaluation.request import TokenisedSet, read_configured_set
    from ..inspection.experiments.changed_mechanism import DRAWS, measure_changes

    text = TokenisedSet.of(read_configured_set(run, "explain", "test"), run.tokenizer)
    table = measure_changes(run.model, text.batch_references(run.config.model.max_positions), draws=DRAWS)
    count = f"{table['tokens'][0]} in {len(text.data.source)} sentences of the test set"
    lines = [f"next tokens right, of {count}, when the cross-attention is changed:", *_change_lines(table)]
    return "\n".join([*lines, *CHANGE_NOTES.format(draws=DRAWS, last=DRAWS - 1).splitlines()]) + "\n"


def _change_lines(table: "pd.DataFrame") -> Iterator[str]:
    """Yields the lines of a table of `inspection.experiments.changed_mechanism.measure_changes`, with a heading.

    The meaning of a control stands in its first line only.
    """
    rows = table.to_dict("records")
    names = [f"  {row['control']}" if row["control"] else row["change"] for row in rows]
    width = max(map(len, names))
    yield f"  {'':{width}}   right  95 % interval  less control  95 % interval"
    explained = set()
    for name, row in zip(names, rows, strict=True):
        right = f"{row['right']:6.1%}  {100 * row['low']:4.1f} to {100 * row['high']:.1f}"
        less = f"{row['difference']:+.1%}  {100 * row['difference_low']:+5.1f} to {100 * row['difference_high']:+.1f}"
        meaning = "" if name in explained else row["meaning"]
        explained.add(name)
        yield f"  {name:<{width}}  {right:22}  {less if row['control'] else '':27} {meaning}".rstrip()


def _explain_pronouns(run: "TrainedRun", path: Path) -> str:
    """Returns the text for `--pronouns`: the encoder heads that attend from a pronoun to its noun, and their effect.

    The effect is shown by the mean probability of the right pronoun in the translation: with all heads, without these
    heads, and without the same number of other heads.

    Args:
        run: the run.
        path: the file with the sentences, see `inspection.experiments.pronouns.read_cases`.
    """
    from ..inspection.experiments.pronouns import find_pointing_heads, measure_effect, read_cases

    cases = read_cases(path, run.tokenizer)
    table = find_pointing_heads(run.model, cases)
    lines = [f"the pronoun's row has its largest weight on its noun, in {len(cases)} sentences:"]
    lines += [
        f"  layer {row.layer}, head {row.head}: {row.points:4d}   mean weight {row.weight:.2f}"
        for row in table.itertuples()
    ]
    effect = measure_effect(run.model, cases, table)
    if effect is None:
        return "\n".join([*lines, "no head does so in more than half of them"]) + "\n"
    names = " and ".join(f"{layer}.{head}" for layer, head in effect.heads)
    lines += [
        "mean probability of the right translation of the pronoun, against the wrong one:",
        f"  {effect.whole:.3f}  with all heads",
        f"  {effect.without:.3f}  without {names}",
    ]
    if controls := effect.controls:
        lines.append(f"  {sum(controls) / len(controls):.3f}  without as many others, the mean of {len(controls)} sets")
    return "\n".join(lines) + "\n"
