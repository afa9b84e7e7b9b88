import dataclasses
import io
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

from qkv.inspection.attention_figure import attention_figure
from qkv.inspection.heatmap import figure_as, save_figure


def panels(figure):
    return [axes for axes in figure.axes if axes.images]


def labels(panel, alignment):
    """What stands beside a panel: rows end at it (`right`), columns begin at it (`left`), its name is centred."""
    return [text.get_text() for text in panel.texts if text.get_ha() == alignment]


def title(figure):
    return figure.texts[0].get_text()


def test_every_head_is_a_panel_of_its_own_weights_on_one_scale(make_record):
    record = make_record(17, heads=3)
    figure = attention_figure(record, "cross", 1)
    assert len(panels(figure)) == 3
    for head, panel in enumerate(panels(figure)):
        (image,) = panel.images
        np.testing.assert_array_equal(image.get_array(), record.attention["cross"][1, head])
        assert image.get_clim() == (0, 1)
        assert labels(panel, "center") == [f"head {head}"]
        assert labels(panel, "left") == record.source_tokens
    assert labels(panels(figure)[0], "right") == record.target_output_tokens
    assert title(figure).startswith(f"17: {record.source}\ncross-attention, layer 1, heads 0-2\n")
    assert "rows: output tokens (being predicted); columns: source tokens" in title(figure)


def test_input_side_labels_the_rows_with_the_tokens_read_and_says_so(make_record):
    record = make_record(2)
    figure = attention_figure(record, layer=0, head=2, side="input")
    (panel,) = panels(figure)
    np.testing.assert_array_equal(panel.images[0].get_array(), record.attention["cross"][0, 2])
    assert labels(panel, "right") == record.target_input_tokens
    assert "head 2\nrows: input tokens" in title(figure)


@pytest.mark.parametrize(
    ("site", "rows", "columns", "said"),
    [
        ("encoder", "source_tokens", "source_tokens", "rows: source tokens; columns: source tokens"),
        ("decoder", "target_output_tokens", "target_input_tokens", "columns: input tokens"),
    ],
)
def test_self_attention_is_labelled_with_its_own_sentence(make_record, site, rows, columns, said):
    record = make_record(2)
    figure = attention_figure(record, site, head=0)
    (panel,) = panels(figure)
    assert labels(panel, "right") == getattr(record, rows)
    assert labels(panel, "left") == getattr(record, columns)
    assert said in title(figure)


def test_tokens_of_any_script_and_with_markup_are_drawn_as_text_without_warnings(make_record):
    """Warnings are errors in these tests; a lone `$x_` would stop matplotlib's formula parser."""
    tokens = ["$x_1^{$", r"$\frac{", "漢字", "שלום", "مرحبا", "a\nb\t", "", "x" * 50, "😀", "</s>"]
    record = dataclasses.replace(make_record(0, source_words=(*range(9), None)), source_tokens=tokens)
    figure = attention_figure(record)
    shown = labels(panels(figure)[0], "left")
    assert shown[:5] == tokens[:5]
    assert shown[5] == r"a\nb\t"
    assert shown[7] == "x" * 17 + "…"
    assert figure_as(figure, "png").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("▁می\u200cروم", "▁می\u200cروم"),
        ("▁نمی\u200c", "▁نمی\u200c"),
        ("ශ්\u200dරී", "ශ්\u200dරී"),
        ("\u200c", r"\u200c"),
        ("▁\u200d", r"▁\u200d"),
        ("a\u200bb\u202e", r"a\u200bb\u202e"),
    ],
)
def test_a_joiner_is_spelt_out_only_where_nothing_else_is_seen(make_record, token, label):
    record = dataclasses.replace(make_record(0), target_output_tokens=[token, *make_record(0).target_output_tokens[1:]])
    assert labels(panels(attention_figure(record))[0], "right")[0] == label


@pytest.mark.parametrize("heads", [1, 4, 5, 8])
@pytest.mark.parametrize(("T", "S"), [(2, 3), (60, 57)])
def test_size_grows_with_the_sentence_up_to_a_limit_and_every_panel_lies_inside(make_record, heads, T, S):
    figure = attention_figure(make_record(0, (*range(S - 1), None), (*range(T - 1), None), heads=heads))
    width, height = figure.get_size_inches()
    assert 5 <= width <= 19
    assert 3 <= height <= 60
    assert len(panels(figure)) == heads
    if heads < 5:
        picture = matplotlib.image.imread(io.BytesIO(figure_as(figure, "png", dots_per_inch=50)))
        assert picture.shape[:2] == pytest.approx((height * 50, width * 50), abs=1)
        cell = panels(figure)[0].get_window_extent().width / figure.dpi / S
        assert cell > 0.1  # inches


@pytest.mark.parametrize("token", ["a", "▁Donaudampf_WWWWW", "漢字漢字漢字漢字漢字漢字", "mmmmmmmmmmmmmmmmmmmmmm"])
@pytest.mark.parametrize(("heads", "T", "S"), [(1, 2, 3), (4, 30, 12)])
def test_no_label_leaves_the_picture_or_runs_into_a_panel(make_record, token, heads, T, S):
    record = make_record(0, (*range(S - 1), None), (*range(T - 1), None), heads=heads)
    tokens = {"source_tokens": [token] * S, "target_output_tokens": [token] * T}
    figure = attention_figure(dataclasses.replace(record, source="long " * 40, **tokens))
    figure_as(figure, "png", figure.dpi)
    inside = figure.bbox
    boxes = [panel.get_window_extent() for panel in panels(figure)]
    for panel in panels(figure):
        for label in [*panel.texts, *figure.texts]:
            box = label.get_window_extent()
            assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    bar = figure.axes[-1].get_window_extent()
    lean = max(label.get_window_extent().x1 for label in panels(figure)[-1].texts)
    assert lean <= bar.x0 and bar.x1 < inside.x1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"site": "memory"}, "memory"),
        ({"side": "both"}, "both"),
        ({"layer": 2}, "layer 2"),
        ({"layer": -1}, "layer -1"),
        ({"head": 3}, "head 3"),
    ],
)
def test_unknown_sites_sides_layers_and_heads_are_refused(make_record, arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_figure(make_record(0), **arguments)


def test_importing_the_package_imports_no_matplotlib():
    code = "import sys, qkv.inspection; sys.exit('matplotlib' in sys.modules or 'tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_file_is_of_the_kind_of_its_suffix_always_the_same_and_alone(tmp_path, make_record, suffix, start):
    written = []
    for name in ("one", "other"):
        save_figure(attention_figure(make_record(0)), tmp_path / f"{name}{suffix}")
        written.append((tmp_path / f"{name}{suffix}").read_bytes())
    assert written[0].startswith(start) and written[0] == written[1]
    assert {path.name for path in tmp_path.iterdir()} == {f"one{suffix}", f"other{suffix}"}
