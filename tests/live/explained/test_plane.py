"""The plane of arrows: its numbers are NumPy's, and it is moved by mouse and by keyboard."""

import json

import numpy as np
import pytest

from tests.support.explained import read_address
from tests.support.viewer import press

# Matrices of sRGB (IEC 61966-2-1) and of OKLab from XYZ (Ottosson 2020), another way than that of the page.
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
CONES = np.array(
    [
        [0.8189330101, 0.3618667424, -0.1288597137],
        [0.0329845436, 0.9293118715, 0.0361456387],
        [0.0482003018, 0.2643662691, 0.6338517070],
    ]
)
AXES = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def to_oklab(colour):
    levels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    return AXES @ np.cbrt(CONES @ XYZ @ linear)


def read_row(page, word):
    """Length, angle, product, score and weight of a word, as the table shows them."""
    cells = page.locator(f"#plane tr[data-word={word}] td").all_inner_texts()
    return [float(text.replace("−", "-").rstrip("°").split()[0]) for text in cells]


def tip(page, index):
    return page.locator(f"#plane [data-arrow='{index}']")


def read_arrows(page):
    return [[float(number) for number in pair.split(",")] for pair in read_address(page)["arrows"].split(";")]


@pytest.mark.parametrize("kind", ["dot", "scaled", "cosine"])
def test_scores_weights_and_the_mixture_are_those_of_numpy(page, kind):
    generator = np.random.default_rng(0)
    cases = [(generator.normal(size=(5, 2)), asker) for asker in (None, 0, 1, 2, 3) for _ in range(5)]
    answers = page.evaluate(
        "([cases, kind]) => cases.map(([arrows, asker]) => computePlane(arrows, kind, asker))",
        [[[arrows.tolist(), asker] for arrows, asker in cases], kind],
    )
    colours = page.evaluate("PLANE_COLOURS")
    for (arrows, asker), answer in zip(cases, answers, strict=True):
        keys = arrows[1:]
        query = arrows[0] if asker is None else keys[asker]
        scores = keys @ query
        if kind == "cosine":
            scores = scores / np.linalg.norm(keys, axis=1) / np.linalg.norm(query)
        elif kind == "scaled":
            scores = scores / np.sqrt(2)
        weights = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(answer["scores"], scores, atol=1e-12)
        np.testing.assert_allclose(answer["weights"], weights, atol=1e-12)
        mixture = weights @ np.array([to_oklab(colour) for colour in colours])
        np.testing.assert_allclose(to_oklab(answer["colour"]), mixture, atol=0.004)  # a step of 8 bits


def test_one_colour_mixed_alone_is_itself(page):
    colours = page.evaluate("PLANE_COLOURS")
    for place, colour in enumerate(colours):
        weights = [float(i == place) for i in range(4)]
        assert page.evaluate("([colours, weights]) => mixColours(colours, weights)", [colours, weights]) == colour


def test_angles_are_between_0_and_180_degrees_and_of_no_length_none(page):
    pairs = [([1, 0], [0, 2]), ([1, 1], [2, 2]), ([1, 0], [-3, 0]), ([0, 0], [1, 0])]
    angles = page.evaluate("(pairs) => pairs.map(([a, b]) => planeAngle(a, b))", pairs)
    assert angles[:3] == pytest.approx([90, 0, 180], abs=1e-5)
    assert angles[3] is None


def test_keys_move_lengthen_and_shorten_the_arrow_that_has_the_focus(page):
    before = page.evaluate("readArrows(null)")
    tip(page, 1).focus()
    press(page, ["ArrowRight"] * 3)
    assert read_arrows(page)[1] == pytest.approx([before[1][0] + 0.3, before[1][1]])
    press(page, ["Shift+ArrowDown"])
    moved = read_arrows(page)[1]
    assert moved == pytest.approx([before[1][0] + 0.3, before[1][1] - 1])
    assert read_row(page, "cat")[0] == pytest.approx(np.hypot(*moved), abs=0.006)
    press(page, ["+"] * 4)
    longer = read_arrows(page)[1]
    assert np.hypot(*longer) == pytest.approx(np.hypot(*moved) + 0.4, abs=0.03)
    assert np.arctan2(*longer) == pytest.approx(np.arctan2(*moved), abs=0.03)
    press(page, ["-"] * 4)
    assert read_arrows(page)[1] == pytest.approx(moved, abs=0.03)
    assert tip(page, 1).get_attribute("aria-valuetext").startswith("x 1.7")
    assert read_arrows(page)[2:] == before[2:]
    press(page, ["Shift+ArrowRight"] * 5)
    assert read_arrows(page)[1][0] == 3, "it stays in the plane"


def test_tab_reaches_every_arrow_and_the_one_in_focus_is_measured(page):
    page.locator("#plane .plane-reset").focus()
    texts = []
    for index in range(5):
        press(page, ["Tab"])
        assert page.evaluate("document.activeElement.dataset.arrow") == str(index)
        texts.append(page.locator("#plane .plane-product").all_inner_texts())
    assert [len(text) for text in texts] == [0, 1, 1, 1, 1]
    assert "juice" in texts[4][0]
    length, _, product, _, _ = read_row(page, "juice")
    assert texts[4][0].endswith(f"= {product:.2f}.".replace("-", "−"))
    assert length > 0


@pytest.mark.parametrize("index", [0, 3])
def test_a_tip_is_dragged_by_the_mouse_and_the_address_follows_when_it_is_let_go(page, index):
    tip(page, index).scroll_into_view_if_needed()
    box = tip(page, index).locator(".hit").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    unit = page.locator("#plane svg.plane").bounding_box()["width"] / 6.7
    page.mouse.move(box["x"] + box["width"] / 2 - unit, box["y"] + box["height"] / 2 + unit / 2, steps=4)
    assert "arrows" not in read_address(page)
    page.mouse.up()
    before = page.evaluate("readArrows(null)")[index]
    assert read_arrows(page)[index] == pytest.approx([before[0] - 1, before[1] - 0.5], abs=0.03)


def test_a_finger_drags_a_tip(browser, explained):
    settings = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    with explained.open(browser, search="?lang=en", **settings) as page:
        tip(page, 2).scroll_into_view_if_needed()
        box = tip(page, 2).locator(".hit").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        touch = page.context.new_cdp_session(page)
        for kind, dx in (("touchStart", 0), ("touchMove", -20), ("touchMove", -60), ("touchEnd", None)):
            points = [] if dx is None else [{"x": x + dx, "y": y}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        before = page.evaluate("readArrows(null)")[2]
        assert read_arrows(page)[2][0] < before[0] - 0.5
        assert page.evaluate("scrollX") == 0


def test_the_sentence_to_unlearn_is_broken_by_hand(page):
    """A word's own vector is the query: among equal lengths it prefers itself, but not to a long neighbour."""
    goal = page.locator("#plane .plane-goal")
    assert "Something to try" in goal.inner_text()
    page.select_option("#plane [name=asker]", "cat")
    assert "still gives the most to itself" in goal.inner_text()
    assert tip(page, 0).is_hidden()
    page.locator("#plane .plane-equal").press("Enter")
    assert "equally long" in goal.inner_text()
    assert [read_row(page, word)[0] for word in ("cat", "apple", "tree", "juice")] == pytest.approx([2] * 4, abs=0.02)
    tip(page, 2).focus()
    presses = 0
    while "reached" not in goal.get_attribute("class") and presses < 20:
        press(page, ["+"])
        presses += 1
    assert 0 < presses < 20
    own, neighbour = read_row(page, "cat"), read_row(page, "apple")
    assert neighbour[2] > own[2]
    assert neighbour[4] > own[4]
    assert "There it is" in goal.inner_text()
    page.select_option("#plane [name=planeScore]", "cosine")
    assert "cannot happen" in goal.inner_text()
    assert "reached" not in goal.get_attribute("class")
    assert read_row(page, "cat")[3] == 1
    assert read_row(page, "cat")[4] > read_row(page, "apple")[4]


def test_an_address_opened_again_shows_the_same_plane(browser, explained, page):
    page.select_option("#plane [name=asker]", "tree")
    page.select_option("#plane [name=planeScore]", "dot")
    tip(page, 4).focus()
    press(page, ["ArrowUp", "ArrowLeft"])
    rows = {word: read_row(page, word) for word in ("cat", "apple", "tree", "juice")}
    read_address(page)
    fragment = page.url[page.url.index("#") :]
    with explained.open(browser, fragment, "?lang=en") as again:
        assert {word: read_row(again, word) for word in rows} == rows
        assert again.input_value("#plane [name=asker]") == "tree"
        again.locator("#plane .plane-reset").click()
        assert "arrows" not in read_address(again)
        assert read_row(again, "juice")[0] == pytest.approx(1.96, abs=0.01)


@pytest.mark.parametrize(
    "text", ["", "1,2", "a,b;c,d;e,f;g,h;i,j", "1,1;1,1;1,1;1,1;,", "NaN,1;1,1;1,1;1,1;1,1", "<b>"]
)
def test_an_address_that_is_no_plane_shows_the_first_one(page, text):
    start = page.evaluate("readArrows(null)")
    assert page.evaluate(f"readArrows({json.dumps(text)})") == start
    page.evaluate(f"explained.set({{ arrows: {json.dumps(text)}, asker: 'x', planeScore: 'constructor' }})")
    assert page.input_value("#plane [name=planeScore]") == "scaled"


def test_coordinates_are_kept_in_the_plane(page):
    assert page.evaluate("readArrows('9,-9;1e9,0;1,1;0.123,0;1,1')") == [[3, -3], [3, 0], [1, 1], [0.12, 0], [1, 1]]
