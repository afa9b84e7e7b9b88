"""What TensorBoard shows: text as it is, though it reads Markdown, and every update of a resumed run once."""

import html
import re
import warnings
from types import SimpleNamespace

import pandas as pd
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from qkv.inspection.measures import MEASURES
from qkv.training.callbacks import tensorboard
from qkv.training.callbacks.tensorboard import MARKDOWN, TensorBoard, forget_from, probe_table


def probe(id_, source, reference, hypothesis):
    return SimpleNamespace(id=id_, source=source, reference=reference, hypothesis=hypothesis)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of a part that TensorBoard brings along
    from tensorboard.plugin_util import markdown_to_safe_html

TRICKY = [
    "it costs $5 ~ <b> or 3 < 4 & more &amp; &lt;",
    "a|b <b>x</b> _y_ *z* **w** ~~v~~",
    "`c` [d](e) ![f](g) # h ~f~ \\ \\\\ $g$ {h}! 1. i",
    "| --- | https://example.org <script>alert(1)</script>",
]


@pytest.mark.parametrize("text", TRICKY)
def test_markdown_shows_every_character_as_it_is(text):
    shown = markdown_to_safe_html(probe_table([probe(0, text, text, "plain, text.")]))
    cells = [html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", shown, re.DOTALL)]
    assert cells == ["0", text, text, "plain, text."]
    assert html.unescape(markdown_to_safe_html(text.translate(MARKDOWN))) == f"<p>{text}</p>"


def test_there_is_one_row_for_each_probe_and_a_missing_reference_is_an_empty_cell():
    lines = probe_table([probe(0, "un chat", None, "a cat"), probe(1, "oui", "yes", "")]).splitlines()
    assert lines[0] == "| # | source | reference | translation |"
    assert lines[2:] == ["| 0 | un chat |  | a cat |", "| 1 | oui | yes |  |"]


def write_losses(folder, values):
    with tf.summary.create_file_writer(str(folder)).as_default():
        for step, value in values.items():
            tf.summary.scalar("loss", value, step=step)


def test_updates_after_a_resumed_checkpoint_are_shown_once_however_often_a_run_is_resumed(tmp_path):
    """Event files are read in the order of their names, which say the second in which each was made."""
    for session, first in enumerate([1, 3, 2, 2]):
        if session:
            forget_from(tmp_path, first)
        before = set(tmp_path.iterdir())
        write_losses(tmp_path, {step: 10.0 * session + step for step in range(first, 5)})
        (written,) = set(tmp_path.iterdir()) - before
        written.rename(tmp_path / f"events.out.tfevents.{session:010d}.{written.name.split('.', 4)[-1]}")
    losses = EventAccumulator(str(tmp_path)).Reload().Tensors("loss")
    assert [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in losses] == [
        (1, 1.0),
        (2, 32.0),
        (3, 33.0),
        (4, 34.0),
    ]


def test_without_event_files_there_is_nothing_to_hide(tmp_path):
    forget_from(tmp_path, 3)
    assert not list(tmp_path.iterdir())


def test_a_rehearsal_does_the_work_of_a_validation_and_writes_nothing(tmp_path, monkeypatch):
    record = probe(0, "un chat", "a cat", "a dog")
    record.attention = {"cross": [None, None]}
    drawn, board = [], TensorBoard(tmp_path, None, None, [("un chat", "a cat")])
    board.translator = SimpleNamespace(translate=lambda sources: sources)
    board.recorder = SimpleNamespace(record_translations=lambda *arguments: [record])
    heads = pd.DataFrame({"layer": [0], **{name: [0.5] for name in MEASURES}})
    monkeypatch.setattr(tensorboard, "heads_table", lambda records: heads)
    monkeypatch.setattr(tensorboard, "attention_figure", lambda *arguments: drawn.append(arguments))
    png = tf.io.encode_png(tf.zeros((2, 2, 3), tf.uint8)).numpy()
    monkeypatch.setattr(tensorboard, "figure_to_png", lambda *arguments, **settings: png)
    board.writer = tf.summary.create_file_writer(str(tmp_path))
    board.rehearse()
    board.writer.flush()
    assert len(drawn) == 2 and tags_in(tmp_path) == set()
    board.on_test_end({"update": 3})
    assert len(drawn) == 4 and any(tag.startswith("probe 0/") for tag in tags_in(tmp_path))


def test_measures_of_empty_translations_are_not_shown(tmp_path, monkeypatch):
    record = probe(0, "un chat", "a cat", "")
    record.attention = {"cross": []}
    board = TensorBoard(tmp_path, None, None, [("un chat", "a cat")])
    board.translator = SimpleNamespace(translate=lambda sources: sources)
    board.recorder = SimpleNamespace(record_translations=lambda *arguments: [record])
    heads = pd.DataFrame({"layer": [0, 1], **{name: [float("nan"), 0.5] for name in MEASURES}})
    monkeypatch.setattr(tensorboard, "heads_table", lambda records: heads)
    board.writer = tf.summary.create_file_writer(str(tmp_path))
    board.on_test_end({"update": 3})
    assert {tag.split(", ")[1] for tag in tags_in(tmp_path) if tag.startswith("attention/")} == {"layer 1"}


def test_the_perplexity_of_a_training_that_diverges_is_shown(tmp_path):
    board = TensorBoard(tmp_path, None, None, [])
    board.writer = tf.summary.create_file_writer(str(tmp_path))
    for update, value in enumerate([2.0, 1e39, 1e300, float("inf"), float("nan")], 1):
        board.on_test_end({"update": update, "val_perplexity": value})
    shown = EventAccumulator(str(tmp_path)).Reload().Tensors("validation/perplexity")
    assert [str(tf.make_ndarray(event.tensor_proto)) for event in shown] == ["2.0", "inf", "inf", "inf", "nan"]


def tags_in(folder):
    events = EventAccumulator(str(folder)).Reload()
    return {tag for tags in events.Tags().values() if isinstance(tags, list) for tag in tags}
