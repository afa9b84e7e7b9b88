"""The page as a whole: what it says of the run, what opens first, the slider over training, saved pictures."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.viewer import GOLD, RECORDS, make_record, open_viewer, press, read_cells, read_state


def test_the_header_says_what_the_page_is_about(browser, tmp_path):
    facts = ["en → fr", "Transformer, 2 + 1 layers × 4 heads", "greedy search", "BLEU 41.3"]
    run = ViewerRun("one", facts=facts, sentences_in_set=1156).add_all(RECORDS)
    with open_viewer(browser, tmp_path, viewer_page("demo, test", [run])) as page:
        assert page.title() == page.inner_text("h1") == "demo, test"
        assert page.inner_text("#facts") == " · ".join([*facts, "first 5 of 1,156 sentences"])
    with open_viewer(browser, tmp_path, viewer_page("bare", [ViewerRun("bare").add_all(RECORDS)])) as page:
        assert page.inner_text("#facts") == ""


def divergence(weights):
    """The generalised Jensen-Shannon divergence of the rows, as a NumPy loop."""

    def entropy(p):
        return -sum(x * np.log(x) for x in p if x > 0)

    return entropy(weights.mean(axis=0)) - np.mean([entropy(row) for row in weights])


def test_without_gold_links_the_head_that_tells_most_opens_first(browser, tmp_path):
    """Neither a head that always looks at one place, which is sharpest, nor one that looks everywhere."""
    record = make_record(0, "a b c", "x y z")
    weights = np.full_like(record.attention["cross"], 0.25)
    weights[0, 1] = [1, 0, 0, 0]
    weights[1, 0] = 0.7 * np.eye(4) + 0.075
    weights[1, 1] = 0.9 * np.eye(4)[::-1] + 0.025
    attention = {**record.attention, "cross": weights}
    best = max(np.ndindex(2, 3), key=lambda place: divergence(weights[place]))
    assert best == (1, 1)
    html = viewer_page("title", [ViewerRun("one").add_all([replace(record, attention=attention)])])
    with open_viewer(browser, tmp_path, html) as page:
        assert read_state(page, "layer", "head") == [1, 1]
        for layer, head in np.ndindex(2, 3):
            told = page.evaluate(f"divergenceOfRows(viewer.store.matrix(0, 0, 'cross', {layer}, {head}))")
            assert told == pytest.approx(divergence(weights[layer, head]), abs=1e-3)


def error_rate(record, weights, gold, side):
    """The alignment error rate of a head on a sentence's words: (right links, links and sure gold links)."""
    rows = record.target_words if side == "output" else [None, *record.target_words[:-1]]
    right = count = 0
    for j in sorted({word for word in rows if word is not None}):
        row = weights[[t for t, word in enumerate(rows) if word == j]].mean(axis=0)
        words = [sum(row[s] for s, word in enumerate(record.source_words) if word == i) for i in range(4)]
        link = (int(np.argmax(words)), j)
        right += (link in gold.possible) + (link in gold.sure)
        count += 1
    return right, count + len(gold.sure)


@pytest.mark.parametrize("side", ["output", "input"])
def test_where_sentences_have_gold_links_the_head_that_agrees_most_with_them_opens_first(browser, tmp_path, side):
    records = [make_record(id_, "the black cat sleeps", "le chat noir dort", seed=3) for id_ in range(4)]
    gold = [GOLD[0], GoldAlignment(frozenset({(2, 1)}), frozenset({(2, 1), (0, 0), (3, 2)}))]
    gold += [GoldAlignment(frozenset(), frozenset())] * 2  # of two sentences nothing is known
    html = viewer_page("title", [ViewerRun("one", gold).add_all(records)], opens_at={"side": side})
    rates = {}
    for layer, head in np.ndindex(2, 3):
        parts = [error_rate(r, r.attention["cross"][layer, head], gold[r.id], side) for r in records[:2]]
        right, count = np.sum(parts, axis=0)
        rates[layer, head] = 1 - right / count
    assert len(set(rates.values())) > 3
    with open_viewer(browser, tmp_path, html) as page:
        call = "errorRate(viewer.store, 0, 'cross', '{}', {}, {}, viewer.store.runs[0].sentences.slice(0, 2))"
        told = {place: page.evaluate(call.format(side, *place)) for place in rates}
        assert told == pytest.approx(rates)
        assert tuple(read_state(page, "layer", "head")) == min(rates, key=rates.get)


def test_a_slider_runs_over_the_stages_of_a_training(browser, tmp_path):
    stages = [
        ViewerRun(("viewer.stage", {"update": i}), facts=["en → fr"]).add_all(
            [make_record(0, "the cat", "le chat", seed=i)]
        )
        for i in range(0, 1200, 100)
    ]
    with open_viewer(browser, tmp_path, viewer_page("demo", stages, stages=True)) as page:
        last = read_cells(page)
        assert page.title() == page.inner_text("h1") == "demo, over training"
        assert page.locator(".run").count() == 1 and page.inner_text(".stage") == "update 1,100"
        assert page.inner_text("#facts") == "en → fr"
        page.locator("[name=stage]").fill("3")
        assert page.inner_text(".stage") == "update 300" and read_cells(page) != last
        press(page, "[[")
        assert read_state(page, "stage") == [1]
        page.locator("[name=stage]").focus()
        press(page, ["End"])
        assert read_cells(page) == last
        page.check("[name=aside]")
        names = page.locator(".run > h2").all_text_contents()
        assert len(names) == 8 and (names[0], names[-1]) == ("update 0", "update 1,100")
        page.locator("[name=stage]").fill("0")
        assert page.locator(".run > h2").all_text_contents() == ["update 0"]


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("view", ["matrix", "lines", "heads"])
def test_a_picture_is_saved_as_a_file_that_stands_alone(browser, tmp_path, view):
    html = viewer_page("title", [ViewerRun("a <run>", GOLD).add_all(RECORDS)], opens_at={"layer": 1, "head": 2})
    with open_viewer(browser, tmp_path, html, f"#id=0&view={view}", color_scheme="dark") as page:
        dark = page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")
        with page.expect_download() as waited:
            page.get_by_role("button", name="Save SVG").click()
        assert waited.value.suggested_filename == "a_run_-0-cross-1-2.svg"
        waited.value.save_as(tmp_path / "picture.svg")
        assert page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor") == dark
    text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    picture = ElementTree.fromstring(text)
    assert not {"class", "tabindex", "role", "style"} & {name for element in picture.iter() for name in element.attrib}
    assert "var(" not in text and "data-" not in text
    words = [element.text for element in picture.iter(f"{SVG}text")]
    which = "all heads" if view == "heads" else "head 2"
    assert words[0] == f"cross-attention, layer 1, {which}, output side"
    assert set(RECORDS[0].source.split()) | set(RECORDS[0].hypothesis.split()) <= set(words)
    assert picture.find(f"{SVG}rect").get("fill") == "#ffffff"
    if view == "matrix":
        inked = [e for e in picture.iter(f"{SVG}rect") if e.get("fill") == "rgb(11, 61, 145)"]
        assert len(inked) == 25 and all(0 <= float(cell.get("fill-opacity")) <= 1 for cell in inked)
    width, height = float(picture.get("width")), float(picture.get("height"))
    for part in picture.findall(f"{SVG}svg"):
        assert float(part.get("x")) + float(part.get("width")) <= width
        assert float(part.get("y")) + float(part.get("height")) <= height


def test_a_picture_is_saved_as_pixels_too(browser, tmp_path):
    html = viewer_page("title", [ViewerRun("run").add_all(RECORDS)], opens_at={"layer": 1, "head": 2})
    with open_viewer(browser, tmp_path, html, "#id=0&words=0", color_scheme="dark") as page:
        with page.expect_download() as waited:
            page.get_by_role("button", name="Save PNG").click()
        assert waited.value.suggested_filename == "run-0-cross-1-2.png"
        waited.value.save_as(tmp_path / "picture.png")
        sizes = page.evaluate(
            "['.columns', '.rows', '.body'].map((name) => sizeOf(document.querySelector(`svg${name}`)))"
        )
    pixels = imread(tmp_path / "picture.png")
    assert pixels.shape[0] > 3 * (sizes[0]["height"] + sizes[2]["height"])
    assert pixels.shape[1] > 3 * (sizes[1]["width"] + sizes[2]["width"])
    assert np.all(pixels[:5] == 1)  # white, and not see-through
    darkest = pixels[..., :3].reshape(-1, 3)[pixels[..., :3].sum(-1).argmin()]
    assert darkest.max() < 0.3  # the caption
    assert np.mean(pixels[..., 2] - pixels[..., 0] > 0.1) > 0.01  # cells, in blue ink


def test_a_page_that_cannot_be_read_says_so(browser, tmp_path):
    html = viewer_page("title", [ViewerRun("one").add_all(RECORDS)])
    start = html.index('id="weights">') + len('id="weights">')
    html = html.replace("<html", '<html data-ready="true"', 1).replace(html[start : start + 40], "AAAA")
    with open_viewer(browser, tmp_path, html) as page:
        page.locator("#runs .warning").wait_for()
        assert page.inner_text("#runs").startswith("This page cannot be shown: ")
