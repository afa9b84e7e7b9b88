"""The colours of attention: pictures, page and notebooks mix the same ink with their paper."""

from matplotlib.colors import to_hex

from qkv.inspection.colours import HEADS, INK
from qkv.inspection.heatmap import WEIGHTS
from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page


def test_a_picture_goes_from_paper_to_the_ink_of_the_page():
    assert [to_hex(WEIGHTS(weight)) for weight in (0.0, 1.0)] == ["#ffffff", INK["light"]]
    page = viewer_page("title", [ViewerRun("one")])
    assert page.count(f"--ink: {INK['light']};") == page.count(f"--ink: {INK['dark']};") == 1


def test_every_head_has_a_colour_on_light_and_on_dark_paper():
    assert len(set(HEADS["light"])) == len(set(HEADS["dark"])) == len(HEADS["light"]) == len(HEADS["dark"])
    page = viewer_page("title", [ViewerRun("one")])
    assert f"const HEAD_COLOURS = {len(HEADS['light'])};" in page
    assert all(f"--head-{head}: {colour};" in page for head, colour in enumerate(HEADS["dark"]))
