"""The colours of attention: pictures, page and notebooks mix the same ink with their paper."""

from matplotlib.colors import to_hex

from qkv.inspection.colours import HEAD_COLOURS, INK
from qkv.inspection.heatmap import WEIGHTS
from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page


def test_a_picture_goes_from_paper_to_the_ink_of_the_page():
    assert [to_hex(WEIGHTS(weight)) for weight in (0.0, 1.0)] == ["#ffffff", INK["light"]]
    page = viewer_page("title", [ViewerRun("one")])
    assert page.count(f"--ink: {INK['light']};") == page.count(f"--ink: {INK['dark']};") == 1


def test_every_head_has_a_colour_on_light_and_on_dark_paper():
    light, dark = HEAD_COLOURS["light"], HEAD_COLOURS["dark"]
    assert len(set(light)) == len(set(dark)) == len(light) == len(dark)
    page = viewer_page("title", [ViewerRun("one")])
    assert f"const HEAD_COLOURS = {len(HEAD_COLOURS['light'])};" in page
    assert all(f"--head-{head}: {colour};" in page for head, colour in enumerate(HEAD_COLOURS["dark"]))
