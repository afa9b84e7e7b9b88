"""What TensorBoard shows: text as it is, though it reads Markdown, and every update of a resumed run once."""

import html
import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from qkv.files.run_directory import RunDirectory
from qkv.files.written import FileList
from qkv.inspection.attention_card import AttentionCard
from qkv.inspection.measures import MEASURES
from qkv.training.callbacks import tensorboard
from qkv.training.callbacks.tensorboard import MARKDOWN, TensorBoard, forget_from, pictures_of, probe_table


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


def write_losses(folder, values):
    with tf.summary.create_file_writer(str(folder)).as_default():
        for step, value in values.items():
            tf.summary.scalar("loss", value, step=step)


def test_updates_after_a_resumed_checkpoint_are_shown_once_however_often_a_run_is_resumed(tmp_path):
    """Event files are read in the order of their names, which say the second in which each was made."""
    for session, first in enumerate([1, 3, 2, 2]):
        if session:
            forget_from(tmp_path, first, FileList(tmp_path))
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


def test_without_event_files_of_ours_there_is_nothing_to_hide(tmp_path):
    (tmp_path / "others.tfevents").touch()
    forget_from(tmp_path, 3, FileList(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["others.tfevents"]


def board_of(folder, records, probes=(("un chat", None), ("le chat", "the cat"))):
    """A TensorBoard whose model finds `records` as translations of its probes."""
    board = TensorBoard(RunDirectory(folder), None, None, probes)
    board.translator = SimpleNamespace(translate=lambda sources: sources)
    board.recorder = SimpleNamespace(record=lambda pairs: records)
    board.writers = {name: tf.summary.create_file_writer(str(path)) for name, path in board.folders.items()}
    return board


def flush(board):
    for writer in board.writers.values():
        writer.flush()


def test_a_rehearsal_does_the_work_of_a_validation_and_writes_nothing(tmp_path, make_record, monkeypatch):
    drawn, png = [], AttentionCard.png
    monkeypatch.setattr(AttentionCard, "png", lambda *arguments: drawn.append(arguments) or png(*arguments))
    board = board_of(tmp_path, [replace(make_record(0), reference=None, mode="greedy")])
    board.rehearse()
    flush(board)
    assert len(drawn) == 9 and tags_in(tmp_path) == set()
    board.on_test_end({"update": 3})
    assert len(drawn) == 18 and any(tag.startswith("probe 0/") for tag in tags_in(tmp_path))


def test_measures_of_empty_translations_are_not_shown(tmp_path, make_record, monkeypatch):
    heads = pd.DataFrame({"layer": [0, 1], **{name: [float("nan"), 0.5] for name in MEASURES}})
    monkeypatch.setattr(tensorboard, "heads_table", lambda records: heads)
    board_of(tmp_path, [replace(make_record(0), reference=None)], [("un chat", None)]).on_test_end({"update": 3})
    assert {tag.split(", ")[1] for tag in tags_in(tmp_path) if tag.startswith("probes/")} == {"layer 1"}


def test_every_head_of_a_probe_has_a_picture_at_every_probed_update(tmp_path, make_record):
    """A probe keeps its number, whichever have references, and the picture of a head its tag."""
    record = make_record(0)
    board = board_of(tmp_path, [replace(record, reference=None, mode="greedy")])
    forced = replace(record, mode="forced")
    for update in (0, 25, 50):
        board.show_attention(update, [forced])
    board.on_test_end({"update": 60})
    events = EventAccumulator(str(tmp_path)).Reload()
    layers, heads = record.attention["cross"].shape[:2]
    names = [f"average of layer {layer}" for layer in range(layers)] + ["best head"]
    names += [f"layer {layer}, head {head}" for layer in range(layers) for head in range(heads)]
    assert names == sorted(names)
    for name in names:
        shown = events.Tensors(f"probe 1/{name}")
        assert [event.step for event in shown] == [0, 25, 50]
        width, height, png = tf.make_ndarray(shown[0].tensor_proto)
        assert tf.io.decode_png(png).shape == (int(height), int(width), 3)
        assert [event.step for event in events.Tensors(f"probe 0/{name}")] == [60]
    assert [event.step for event in events.Tensors("probes/entropy, layer 0")] == [0, 25, 50]


@pytest.mark.parametrize(("layers", "heads", "pictures"), [(1, 1, 1), (1, 4, 6), (6, 8, 7), (2, 8, 19)])
def test_a_model_of_many_heads_shows_the_means_of_its_layers_and_the_best(layers, heads, pictures):
    words = np.random.default_rng(1).random((layers, heads, 3, 4))
    shown = list(pictures_of(words, (layers - 1, heads - 1)))
    assert len(shown) == pictures
    matrices = {name: matrix for name, matrix, *_ in shown}
    np.testing.assert_array_equal(matrices["average of layer 0"], words[0].mean(0))
    if layers * heads > 1:
        np.testing.assert_array_equal(matrices["best head"], words[-1, -1])


def test_the_perplexity_of_a_training_that_diverges_is_shown(tmp_path):
    board = board_of(tmp_path, [], [])
    for update, value in enumerate([2.0, 1e39, 1e300, float("inf"), float("nan")], 1):
        board.on_test_end({"update": update, "val_perplexity": value})
    shown = EventAccumulator(str(tmp_path / "validation")).Reload().Tensors("metrics/perplexity")
    assert [str(tf.make_ndarray(event.tensor_proto)) for event in shown] == ["2.0", "inf", "inf", "inf", "nan"]


def tags_in(folder):
    events = EventAccumulator(str(folder)).Reload()
    return {tag for tags in events.Tags().values() if isinstance(tags, list) for tag in tags}
