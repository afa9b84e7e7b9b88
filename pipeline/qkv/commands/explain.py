"""Explains a trained run in numbers: `qkv explain RUN --sentence "..."`, `--change` or `--pronouns FILE`."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.choices.inspection import SITES, site_name
from ..errors import InputError, did_you_mean, quoted
from ..files.atomic import output_when_done
from ..files.written import refuse_input
from ..runtime.import_tensorflow import importing_tensorflow
from ..text.tokens.special_tokens import WORD_START
from . import cli

if TYPE_CHECKING:
    import pandas as pd

    from ..inspection.experiments.row_steps import RowSteps
    from ..run.trained_run import TrainedRun
    from ..text.tokens.tokenizer import Tokenizer

MOST = 1_000_000
MOST_DIGITS = 9  # of a position
BAR = 40
LENS = "; alone: the token that it would predict alone"
FOLLOWED = [name for name, site in SITES.items() if site.weighed_at.startswith(name)]


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "explain",
        description="Explains a trained Transformer in numbers. --sentence follows one row of one head step by step, "
        "each with the line of NumPy that computes it, and splits the token's logit. --change counts the tokens that "
        "stay right when one thing about the attention is changed. --pronouns finds the heads that lead a pronoun to "
        "its noun.",
    )
    cli.add_run_argument(parser)
    cli.add_checkpoint_option(parser)
    row = parser.add_argument_group("one row of attention")
    row.add_argument("--sentence", metavar="TEXT", help="explain how this source sentence is translated")
    row.add_argument("--target", metavar="TEXT", help="read this translation (default: the run's own)")
    row.add_argument(
        "--token",
        metavar="TOKEN",
        help="explain the row of this word or token, or of this position from 0, for one that occurs several times "
        "(default: the token in the middle)",
    )
    row.add_argument(
        "--site",
        type=site_name,
        choices=FOLLOWED,
        default="cross",
        help="follow the cross-attention, or the self-attention of the encoder or decoder (default: cross)",
    )
    row.add_argument("--layer", type=cli.whole_number(0, MOST), help="follow this layer, from 0 (default: the last)")
    row.add_argument("--head", type=cli.whole_number(0, MOST), default=0, help="follow this head, from 0 (default: 0)")
    row.add_argument(
        "--arrays",
        type=cli.file_to_write,
        metavar="FILE",
        help="write the arrays that the lines start from to this .npz file",
    )
    whole = parser.add_argument_group("the whole model")
    whole.add_argument(
        "--change",
        action="store_true",
        help="count the next tokens of the test set that stay right when the cross-attention is changed",
    )
    whole.add_argument(
        "--pronouns",
        type=cli.text_file,
        metavar="FILE",
        help="find the encoder's heads that look from a pronoun at its noun, in a table such as data/demo/pronouns.tsv",
    )
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Loads the run and prints what is asked for."""
    options = make_parser().parse_args(arguments)
    for name in ("target", "token", "arrays"):
        if getattr(options, name) is not None and options.sentence is None:
            raise InputError(f"--{name} needs --sentence, the sentence that it belongs to")
    if options.sentence is None and not (options.change or options.pronouns):
        raise InputError('expected what to explain: --sentence "...", --change or --pronouns FILE')
    if options.arrays and options.arrays.suffix != ".npz":
        raise InputError(f"--arrays: expected a name that ends in .npz, found {str(options.arrays)!r}")
    if options.arrays:
        refuse_input(options.arrays, [*options.run.inputs, *filter(None, [options.pronouns])], "--arrays")
    with importing_tensorflow():
        from ..run.trained_run import load_run

    run = load_run(options.run.root, options.checkpoint)
    reports = [] if options.sentence is None else [_explain_sentence(run, options)]
    reports += [_explain_changes(run)] if options.change else []
    reports += [_explain_pronouns(run, options.pronouns)] if options.pronouns else []
    sys.stdout.write("\n".join(reports))


def _explain_sentence(run: "TrainedRun", options: argparse.Namespace) -> str:
    """Returns the steps of a row, and the parts of the logit of the token that it predicts."""
    from ..inspection.experiments.activations import read_ids
    from ..inspection.experiments.logit_parts import split_logit
    from ..inspection.experiments.row_steps import row_steps
    from ..inspection.experiments.score_parts import layer_name, shared_float64

    sentence = options.sentence if options.target is None else (options.sentence, options.target)
    pair, predicted = read_ids(run.translator, sentence)
    if len(pair[0]) == 1:  # EOS
        raise InputError(f"--sentence: expected a sentence, found {options.sentence!r:.60}, which has nothing to read")
    pieces = run.tokenizer.pieces
    source, read, written = pieces(pair[0]), pieces(pair[1]), pieces(predicted)
    in_encoder = options.site == "encoder"
    if options.token is None:
        row = len(source if in_encoder else written) // 2
    else:
        ids, tokenizer = (pair[0], run.tokenizer) if in_encoder else (predicted, run.tokenizer.of_target)
        row = _find_token(options.token, ids, tokenizer)
    layers = len(run.model.attention_layers().get(options.site, ())) or 1
    layer = layer_name(SITES[options.site].weighed_at, layers - 1 if options.layer is None else options.layer)
    model = shared_float64(run.model, run.graphs)
    steps = row_steps(model, pair, layer, options.head, row, predicted[min(row, len(predicted) - 1)])
    asked = f"the state of {source[row]}" if in_encoder else f"after {read[row]}, the decoder predicts {written[row]}"
    lines = [
        f"source       {' '.join(source)}",
        f"translation  {' '.join(written)}",
        f"{layer}, head {options.head}, row {row}: {asked}",
        "",
        _keys_table(steps, read if options.site == "decoder" else source, pieces).to_string(index=False),
        f"|v@W_o|: the length of what the value adds with all the weight{LENS if 'alone' in steps.values else ''}",
        "",
        *_step_lines(steps, options.arrays),
    ]
    if not in_encoder:
        lines += ["", *_logit_lines(split_logit(model, pair, row, predicted[row]), source, written[row])]
    if options.arrays:
        import numpy as np

        with output_when_done(options.arrays) as temporary:
            np.savez(temporary, allow_pickle=False, **dict(steps.arrays))
    return "\n".join(lines) + "\n"


def _find_token(asked: str, ids: Sequence[int], tokenizer: "Tokenizer") -> int:
    """Returns the position of a token that is given as a number, as it is spelt, or as a word."""
    tokens = tokenizer.pieces(ids)
    if re.fullmatch("[0-9]{1,9}", asked) and int(asked) < len(tokens):
        return int(asked)
    fitting = [position for position, token in enumerate(tokens) if token == asked]
    if not fitting:
        (word,) = tokenizer.encode([asked])
        starts = range(len(ids)) if word else ()
        fitting = [start for start in starts if list(ids[start : start + len(word)]) == list(word)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        positions = ", ".join(f"{position} ({tokens[position]})" for position in fitting)
        raise InputError(f"--token: {asked!r} fits {len(fitting)} tokens; give the position of one: {positions}")
    raise InputError(
        f"--token: expected a word or token of {' '.join(tokens)}, or a position from 0 to {len(tokens) - 1}, found "
        f"{quoted(asked)}{did_you_mean(asked, [token.lstrip(WORD_START) for token in tokens])}"
    )


def _keys_table(steps: "RowSteps", tokens: Sequence[str], pieces: Any) -> "pd.DataFrame":
    """Returns a row for each key: product, score, weight, and the vector that its value would add alone."""
    import numpy as np
    import pandas as pd

    values = steps.values
    divided = f"/sqrt({values['q'].size})" if not np.array_equal(values["scores"], values["products"]) else "score"
    table = pd.DataFrame(
        {
            "token": tokens[: len(values["weights"])],
            "q.k": [f"{x:.1f}" for x in values["products"]],
            divided: [f"{x:.2f}" for x in values["scores"]],
            "weight": [f"{x:.3f}" for x in values["weights"]],
            "|v@W_o|": [f"{x:.1f}" for x in np.linalg.norm(values["v"] @ steps.arrays["W_o"], axis=-1)],
        }
    )
    if "alone" in values:
        table["alone"] = pieces(values["alone"].argmax(axis=-1).tolist())
    return table


def _step_lines(steps: "RowSteps", arrays: Path | None) -> Iterator[str]:
    """Yields the lines of NumPy, each with its result in a few words."""
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
    """Yields the parts of a logit, those of cross-attention by source token."""
    yield f"logit of {token}, less the mean of all tokens: {parts['difference'].sum():.2f}, the sum of"
    by_part = parts.groupby("part", sort=False)["difference"].sum()
    for name, value in by_part[by_part != 0].items():
        yield f"  {value:7.2f}  {name}"
    read = parts[parts["source"] >= 0]
    if len(read):
        yield "of the cross-attention, by source token"
        of_tokens = read.groupby("source")["difference"].sum()
        for place, value in zip(of_tokens.index.to_list(), of_tokens, strict=True):
            bar = "#" * round(BAR * max(value, 0) / max(of_tokens.max(), 1e-9))
            yield f"  {value:7.2f}  {source[place]:<15} {bar}".rstrip()


def _explain_changes(run: "TrainedRun") -> str:
    """Returns the table of changes of the cross-attention on the run's test set."""
    import numpy as np

    from ..evaluation.request import TokenisedSet, read_configured_set
    from ..inspection.experiments.changed_mechanism import measure_changes
    from ..text.batch import forced_batch
    from ..text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length

    text = TokenisedSet.of(read_configured_set(run, "explain", "test"), run.tokenizer)
    pairs = [one.ids for one in text.pair_references(run.config.model.max_positions)]
    source, target = (np.array([len(pair[side]) for pair in pairs]) for side in (0, 1))
    rows = batches_by_length(source + 1, target, FORCED_BATCH_TOKENS)
    table = measure_changes(run.model, (forced_batch([pairs[i] for i in part]).ids for part in rows))
    width = table["change"].str.len().max()
    lines = [f"next tokens right, of {table['tokens'][0]} of the test set, when the cross-attention is changed:"]
    lines += [f"  {row.change:<{width}}  {row.right:6.1%}  {row.meaning}" for row in table.itertuples()]
    return "\n".join(lines) + "\n"


def _explain_pronouns(run: "TrainedRun", path: Path) -> str:
    """Returns the heads that look from a pronoun at its noun, and what the translation of the pronoun loses without."""
    from ..inspection.experiments.pronouns import control_sets, find_pointing_heads, measure_without, read_cases

    cases = read_cases(path, run.tokenizer)
    table = find_pointing_heads(run.model, cases)
    lines = [f"the pronoun's row has its largest weight on its noun, in {len(cases)} sentences:"]
    lines += [
        f"  layer {row.layer}, head {row.head}: {row.points:4d}   mean weight {row.weight:.2f}"
        for row in table.itertuples()
    ]
    pointing = table[table["points"] > len(cases) / 2]
    found = list(zip(pointing["layer"].to_list(), pointing["head"].to_list(), strict=True))
    if not found:
        return "\n".join([*lines, "no head does so in more than half of them"]) + "\n"
    names = " and ".join(f"{layer}.{head}" for layer, head in found)
    layers = run.model.attention_layers()["encoder"]
    others = control_sets(found, len(layers), layers[0].num_heads)
    controls = [measure_without(run.model, cases, heads) for heads in others]
    lines += [
        "mean probability of the right translation of the pronoun, against the wrong one:",
        f"  {measure_without(run.model, cases, []):.3f}  with all heads",
        f"  {measure_without(run.model, cases, found):.3f}  without {names}",
    ]
    if controls:
        lines.append(f"  {sum(controls) / len(controls):.3f}  without as many others, the mean of {len(controls)} sets")
    return "\n".join(lines) + "\n"
