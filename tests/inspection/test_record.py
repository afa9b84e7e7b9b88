"""A sentence as it is printed, and as a table."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from qkv.errors import InputError
from qkv.inspection.record import Record

DIGITS, HUGE = pytest.param("9" * 5000, id="digits"), pytest.param(10**5000, id="huge")


def test_a_record_is_printed_on_one_line(make_record):
    record = make_record(7, source="a\nb", hypothesis="x" * 100)
    assert repr(record) == str(record)
    assert repr(record) == (
        f"<Record 7: 'a\\nb' -> '{'x' * 59}…', forced; cross (2, 3, 4, 5), encoder (2, 3, 5, 5), decoder (2, 3, 4, 4)>"
    )


def test_a_table_has_one_head_or_their_mean(make_record):
    record = make_record()
    weights = record.attention["cross"]
    for head in (2, -1, "2", np.int64(2)):
        np.testing.assert_array_equal(record.to_frame(layer=-1, head=head), weights[1, 2])
    np.testing.assert_array_equal(record.to_frame("encoder_self"), record.to_numpy("encoder_self")[0].mean(axis=0))


@pytest.mark.parametrize("layer", [2, -3, HUGE, DIGITS, "last", "1_0", "١", "-1", 0.0, float("nan"), None])
def test_a_layer_that_is_not_there_is_refused(make_record, layer):
    with pytest.raises(InputError, match=r"sentence 0: layer: expected a number from -2 to 1 .*, found ") as caught:
        make_record().to_frame(layer=layer)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("head", [3, -4, HUGE, DIGITS, "max", 1.5, float("inf"), None])
def test_a_head_that_is_not_there_is_refused(make_record, head):
    with pytest.raises(InputError, match=r"head: expected a number from -3 to 2 \(-1: the last\) or 'mean', found "):
        make_record().to_frame(head=head)


@pytest.mark.parametrize("site", ["norms", "cros", "", DIGITS, 5, None, ["cross"]])
def test_attention_that_is_not_kept_is_refused(make_record, site):
    for read in (make_record().to_frame, make_record().to_numpy):
        with pytest.raises(InputError, match=r"site: expected one of cross, encoder, decoder, found .*\.attention"):
            read(site)


def test_a_record_without_cross_attention_has_no_table(make_record):
    record = make_record(attention={"cross": np.zeros((0, 1, 4, 5), np.float32)})
    assert record.to_numpy().shape == (0, 1, 4, 5)
    with pytest.raises(InputError, match="the model has no attention at the site 'cross'"):
        record.to_frame()


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("site", ["cross", "encoder", "encoder_self", "decoder"])
@pytest.mark.parametrize(("head", "title"), [("mean", "mean of 3 heads"), (1, "head 1"), (-1, "head 2")])
@pytest.mark.parametrize("side", ["output", "input"])
def test_a_plot_shows_the_table_on_the_axes_that_are_given(make_record, site, head, title, side):
    record, ax = make_record(), Figure().add_subplot()
    assert record.plot(site, 1, head, side, ax) is ax
    table = record.to_frame(site, 1, head)
    np.testing.assert_array_equal(ax.images[0].get_array(), table.to_numpy())
    assert ax.images[0].get_clim() == (0, 1)
    rows, columns = record.axis_tokens(site.removesuffix("_self"), side)
    assert (labels(ax.yaxis), labels(ax.xaxis)) == (rows, columns)
    assert len(rows) == len(table) and columns == [*table.columns]
    assert (rows == [*table.index]) == (side == "output" or site.startswith("encoder"))
    assert ax.get_title().endswith(f"layer 1, {title}") and len(ax.figure.axes) == 1
    told = {"cross": ("tokens", "source tokens"), "decoder": ("tokens", "input tokens (just read)")}
    row_title, column_title = told.get(site, ("source tokens", "source tokens"))
    assert row_title in ax.get_ylabel() and ax.get_xlabel() == column_title
    assert site.startswith("encoder") or ax.get_ylabel().startswith(side)


def test_a_plot_without_axes_is_a_figure_of_pyplot_of_the_last_layers_mean(make_record):
    backend = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    record = make_record()
    ax = record.plot()
    assert ax.figure is pyplot.gcf() and len(ax.figure.axes) == 2  # with the scale of colours
    np.testing.assert_array_equal(ax.images[0].get_array(), record.attention["cross"][-1].mean(axis=0))
    pyplot.close("all")
    pyplot.switch_backend(backend)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_picture_is_written_whole_and_always_the_same_without_pyplot(make_record, tmp_path, suffix):
    path = tmp_path / f"new/picture{suffix}"
    make_record().save(str(path), head=1)
    first = path.read_bytes()
    make_record().save(path, head=1)
    assert path.read_bytes() == first and [*path.parent.iterdir()] == [path]
    make_record().save(path, "encoder", 0)
    assert path.read_bytes() != first and pyplot.get_fignums() == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a.jpg", "path: expected a name that ends in .png, .svg, .pdf, found 'a.jpg'"),
        ("picture", "found 'picture'"),
        (7, "path: expected a file, such as 'attention.png', found 7"),
        ("folder.png", "this is a directory; expected the name of a file"),
        ("old.png/a.png", "old.png is a file; expected a folder"),
        ("x" * 300 + ".png", "File name too long"),
    ],
)
def test_a_path_that_cannot_be_a_picture_is_refused(make_record, tmp_path, monkeypatch, path, told):
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    Path("old.png").write_bytes(b"old")
    with pytest.raises(InputError, match=told):
        make_record().save(path)
    assert {file.name for file in tmp_path.iterdir()} == {"folder.png", "old.png"}


@pytest.mark.parametrize("arguments", [{"site": "norms"}, {"layer": 2}, {"head": 3}, {"side": "both"}])
def test_what_a_record_does_not_have_is_neither_drawn_nor_written(make_record, tmp_path, arguments):
    (tmp_path / "a.png").write_bytes(b"old")
    (name,) = arguments
    record, ax = make_record(), Figure().add_subplot()
    for draw in (partial(Record.plot, record, ax=ax), partial(Record.save, record, tmp_path / "a.png")):
        with pytest.raises(InputError, match=f"sentence 0: {name}: expected"):
            draw(**arguments)
    assert not ax.images and (tmp_path / "a.png").read_bytes() == b"old"


def test_a_record_imports_no_matplotlib_before_it_is_drawn_and_no_pyplot_to_be_saved(tmp_path):
    code = """
import sys
from tests.support.records import build_record
assert "matplotlib" not in sys.modules
build_record().save(sys.argv[1])
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "a.png"], check=True)
