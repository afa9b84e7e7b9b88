"""A heat map of one matrix: on any axes, of any library's numbers, with any labels."""

import io
import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from matplotlib import pyplot
from matplotlib.figure import Figure

import qkv
from qkv.inspection.heatmap import WEIGHTS, figure_as, heatmap

ROWS, COLUMNS = ["a", "b"], ["x", "y", "z"]
MATRIX = [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]


@pytest.fixture
def ax():
    return Figure(figsize=(5, 4)).add_subplot()


@pytest.fixture
def headless():
    """pyplot without windows, and without figures of other tests."""
    backend = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    pyplot.close("all")
    yield
    pyplot.close("all")
    pyplot.switch_backend(backend)


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def tensor_of(library, **settings):
    """A function that makes a tensor of a library, which may not be installed."""

    def convert(matrix):
        module = pytest.importorskip(library)
        return (module.array if library == "jax.numpy" else module.tensor)(matrix, **settings)

    return convert


class Tensor:
    """What a tensor of PyTorch with a gradient, on a GPU or in bfloat16 does: NumPy cannot read it as it is."""

    def __init__(self, matrix, steps=()):
        self.matrix, self.steps = matrix, steps

    def __getattr__(self, name):
        if name not in ("detach", "cpu", "double"):
            raise AttributeError(name)
        return lambda: Tensor(self.matrix, (*self.steps, name))

    def __array__(self, dtype=None, copy=None):
        if set(self.steps) != {"detach", "cpu", "double"}:
            raise TypeError("call detach, cpu and double first")
        return np.array(self.matrix, dtype)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(list, id="lists"),
        pytest.param(np.array, id="numpy"),
        pytest.param(lambda matrix: pd.DataFrame(matrix, ROWS, COLUMNS), id="pandas"),
        pytest.param(tf.constant, id="tensorflow"),
        pytest.param(tf.Variable, id="variable"),
        pytest.param(lambda matrix: tf.constant(matrix, tf.bfloat16), id="tensorflow in bfloat16"),
        pytest.param(tensor_of("jax.numpy"), id="jax"),
        pytest.param(tensor_of("jax.numpy", dtype="bfloat16"), id="jax in bfloat16"),
        pytest.param(tensor_of("torch"), id="torch"),
        pytest.param(tensor_of("torch", requires_grad=True), id="torch with a gradient"),
        pytest.param(Tensor, id="as torch"),
    ],
)
def test_numbers_of_every_library_are_drawn_with_their_labels(ax, convert):
    assert heatmap(convert(MATRIX), ROWS, COLUMNS, ax) is ax
    (image,) = ax.images
    np.testing.assert_allclose(image.get_array(), MATRIX, atol=2**-8)
    assert (labels(ax.yaxis), labels(ax.xaxis)) == (ROWS, COLUMNS)
    assert image.get_clim() == (0, 1) and image.get_cmap() is WEIGHTS
    assert qkv.heatmap is heatmap


@pytest.mark.parametrize(
    ("matrix", "settings", "limits"),
    [
        ([[0.2, 0.3]], {}, (0, 1)),
        ([[-0.2, 0.3]], {}, (-0.3, 0.3)),
        ([[-2.0, 0.3]], {"vmax": 1}, (-2, 1)),
        ([[0.2, 7]], {}, (0, 7)),
        ([[-np.inf, 3]], {}, (0, 3)),
        ([[np.nan, np.nan]], {}, (0, 1)),
        ([[0.2, 7]], {"vmin": 0.1, "vmax": 0.5}, (0.1, 0.5)),
        ([[True, False]], {}, (0, 1)),
    ],
)
def test_the_scale_is_that_of_weights_unless_numbers_lie_outside(ax, matrix, settings, limits):
    assert heatmap(matrix, ["a"], ["x", "y"], ax, **settings).images[0].get_clim() == limits


def test_zero_is_white_with_and_without_negative_numbers(ax):
    for numbers in ([[0.0, 0.5]], [[0.0, -0.5]]):
        image = heatmap(numbers, ax=ax).images[-1]
        np.testing.assert_allclose(image.to_rgba(np.array([0.0]))[0], 1, atol=0.01)
        assert image.to_rgba(np.array(numbers))[0, 1, :3].min() < 0.6


def test_without_labels_those_of_a_table_are_drawn_or_numbers(ax):
    heatmap(pd.DataFrame(MATRIX, ROWS, COLUMNS), ax=ax)
    assert (labels(ax.yaxis), labels(ax.xaxis)) == (ROWS, COLUMNS)
    heatmap(MATRIX, ax=ax)
    assert (labels(ax.yaxis), labels(ax.xaxis)) == (["0", "1"], ["0", "1", "2"])
    for wrong in (3, [1, 2], [[1], [1, 2]]):
        with pytest.raises(qkv.InputError, match="matrix: expected rows and columns of real numbers, found"):
            heatmap(wrong, ax=ax)


def test_cells_that_are_not_finite_stay_empty(ax):
    image = heatmap([[0.5, np.nan], [-np.inf, np.inf]], ["a", "b"], range(2), ax).images[0]
    np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), [[False, True], [True, True]])
    assert labels(ax.xaxis) == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((MATRIX, COLUMNS, ROWS), r"expected the shape \(3, 2\), for 3 rows and 2 columns, found \(2, 3\); matrix.T"),
        (([MATRIX, MATRIX], ROWS, COLUMNS), r"found \(2, 2, 3\); choose one head, such as matrix\[0\]"),
        ((MATRIX[0], ROWS, COLUMNS), r"found \(3,\)"),
        (([["a", "b"]], ["a"], ["x", "y"]), "matrix: expected real numbers, found"),
        (([[1], [1, 2]], ROWS, COLUMNS), "matrix: expected real numbers, found"),
        (([[1j]], ["a"], ["x"]), "matrix: expected real numbers"),
        ((None, ["a"], ["x"]), r"found \(\)|real numbers"),
        ((MATRIX, "ab", COLUMNS), "rows: expected a list of labels, found 'ab'"),
        ((MATRIX, ROWS, 3), "columns: expected a list of labels, found 3"),
        ((np.zeros((0, 3)), [], COLUMNS), "rows: expected at least one label, found none"),
        ((np.zeros((999, 999)) + 1j, ROWS, COLUMNS), "matrix: expected real numbers"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused_in_one_line_and_nothing_is_drawn(ax, headless, arguments, told):
    with pytest.raises(qkv.InputError, match=told) as caught:
        heatmap(*arguments, ax)
    assert len(str(caught.value)) < 200 and not ax.images
    with pytest.raises(qkv.InputError, match=told):
        heatmap(*arguments)
    assert pyplot.get_fignums() == []


def test_labels_of_any_script_and_with_markup_are_drawn_literally(ax):
    tokens = ["$x_1^{$", r"$\frac{", "שלום", "a\nb", "x" * 50]
    heatmap(np.eye(5), tokens, tokens, ax)
    assert labels(ax.yaxis) == labels(ax.xaxis) == [*tokens[:3], r"a\nb", "x" * 17 + "…"]
    assert figure_as(ax.figure, "png").startswith(b"\x89PNG")


@pytest.mark.parametrize("token", ["a", "▁Donaudampf_WWWWW", "漢字漢字漢字漢字漢字漢字"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 30), (30, 12), (60, 50)])
def test_a_figure_of_its_own_fits_all_labels_and_titles_and_has_a_scale(headless, token, height, width):
    ax = heatmap(np.zeros((height, width)), [token] * height, [token] * width)
    ax.set_title("cross-attention times value norms\nlayer 0, mean of 4 heads")
    ax.set(xlabel="columns", ylabel="rows")
    file = io.BytesIO(figure_as(ax.figure, "png", ax.figure.dpi))
    assert pyplot.get_fignums() == [ax.figure.number]
    inside = ax.figure.bbox
    texts = [*ax.get_yticklabels(), *ax.get_xticklabels(), ax.title, ax.xaxis.label, ax.yaxis.label]
    for text in texts:
        box = text.get_window_extent()
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1, text
        assert inside.y0 <= box.y0 and box.y1 <= inside.y1, text
    cells = ax.images[0].get_window_extent()
    assert cells.width / width == pytest.approx(cells.height / height, rel=0.05)
    assert cells.width / width / ax.figure.dpi > 0.08  # inches
    assert ax.figure.axes[1].get_window_extent().x1 <= inside.x1
    assert matplotlib.image.imread(file).shape[0] == pytest.approx(inside.height, abs=1)


def test_given_axes_touch_no_figure_of_pyplot_and_the_other_axes_stay_as_they_are(headless):
    figure = Figure(figsize=(8, 4))
    first, second = figure.subplots(1, 2)
    heatmap(MATRIX, ROWS, COLUMNS, first)
    assert pyplot.get_fignums() == [] and len(figure.axes) == 2 and not second.images
    heatmap(np.zeros((40, 40)), range(40), range(40), second)
    sizes = [axes.get_xticklabels()[0].get_fontsize() for axes in (first, second)]
    assert sizes[0] > sizes[1] == 6


def test_the_package_alone_imports_no_matplotlib_and_a_heat_map_on_axes_no_pyplot():
    code = """
import sys, qkv
dir(qkv), qkv.InputError, qkv.AttentionArchive
assert "matplotlib" not in sys.modules
from matplotlib.figure import Figure
qkv.heatmap([[1]], ["a"], ["b"], Figure().add_subplot())
assert not {"matplotlib.pyplot", "tensorflow", "keras"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
