"""The store: a page may begin empty, scripts add sentences, heads' pictures and sections can be extended."""

import json

import numpy as np
import pytest

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import Extension, encode_weights, viewer_page
from tests.support.viewer import RECORDS, make_record, open_viewer, press, read_cells, read_state

UNITS = {"source": "spaces", "target": "spaces"}
SITES = {"cross": [2, 3], "encoder": [1, 3]}


def add(page, record, kind="Uint16Array", run=0):
    """Adds a sentence as a live page does, and returns what went wrong."""
    made = ViewerRun("one").add_all([record])
    weights = np.concatenate(made.weights)
    if kind == "Float32Array":
        weights = weights / 65535
    return page.evaluate(
        f"""([run, sentence, weights]) => {{
          try {{
            viewer.store.addSentence(run, sentence, {kind}.from(weights));
          }} catch (error) {{
            return error.message;
          }}
          return null;
        }}""",
        [run, made.sentences[0], weights.tolist()],
    )


@pytest.fixture
def empty():
    return viewer_page("live", [ViewerRun("one", sites=SITES, units=UNITS)])


@pytest.mark.parametrize("kind", ["Uint16Array", "Float32Array"])
def test_a_page_begins_empty_and_shows_the_sentences_that_are_added(browser, empty, tmp_path, kind):
    with open_viewer(browser, tmp_path, empty) as page:
        assert page.inner_text("#count") == "0 sentences" and page.locator(".run").count() == 0
        press(page, ["j", "k", "h", "l", "w", "v", "v", "v", "v", "w", "Escape"])  # nothing to do, and nothing breaks
        for record in (RECORDS[3], RECORDS[0]):
            assert add(page, record, kind) is None
        assert read_state(page, "id") == [3]  # the first that came is shown
        page.evaluate("viewer.store.select(0)")
        page.uncheck("[name=words]")
        page.evaluate("viewer.store.set({ layer: 1, head: 2 })")
        expected = RECORDS[0].attention["cross"][1, 2]
        np.testing.assert_allclose([weight for *_, weight in read_cells(page)], expected.ravel(), atol=2e-5)
        page.select_option("[name=site]", "encoder")
        expected = RECORDS[0].attention["encoder"][0, 2]
        np.testing.assert_allclose([weight for *_, weight in read_cells(page)], expected.ravel(), atol=2e-5)
        assert page.inner_text("#count") == "2 sentences"


def test_a_sentence_of_the_same_id_is_replaced(browser, tmp_path):
    html = viewer_page("title", [ViewerRun("one").add_all(RECORDS[:1])], opens_at={"layer": 0, "head": 0})
    with open_viewer(browser, tmp_path, html) as page:
        other = make_record(0, "the dog", "le chien", seed=5)
        assert add(page, other) is None
        assert page.locator("#list .row .text").all_text_contents() == ["the dog"]
        page.uncheck("[name=words]")
        expected = other.attention["cross"][0, 0]
        np.testing.assert_allclose([weight for *_, weight in read_cells(page)], expected.ravel(), atol=2e-5)


def test_a_wrong_number_of_weights_is_refused_and_changes_nothing(browser, empty, tmp_path):
    with open_viewer(browser, tmp_path, empty) as page:
        record = make_record(0, "the dog", "le chien", heads=2)
        assert "weights, found" in add(page, record)
        assert page.inner_text("#count") == "0 sentences"


def test_runs_are_added_while_the_page_is_open(browser, tmp_path):
    html = viewer_page("title", [ViewerRun("one").add_all(RECORDS[:1])])
    with open_viewer(browser, tmp_path, html) as page:
        run = json.dumps({"name": "changed", "sites": SITES, "units": UNITS, "facts": [], "sentences": []})
        assert page.evaluate(f"viewer.store.addRun({run})") == 1
        assert add(page, RECORDS[0], run=1) is None
        assert page.locator(".run > h2").all_text_contents() == ["one", "changed"]


SCRIPT = """
viewer.decorateHeads((button, { run, sentence, site, layer, head }) => {
  button.classList.toggle("off", layer === 1 && head === switchedOff);
  button.dataset.place = [run, sentence.id, site, layer, head].join();
});
viewer.addPanel((section, { run, sentence }) => {
  section.append(htmlElement("p", { class: "more" }, `${run} ${sentence.id}`));
});
let switchedOff = 0;
viewer.ready.then(async () => {
  viewer.store.addSentence(0, SENTENCE, await readWeights(WEIGHTS));
});
"""


def test_scripts_decorate_heads_and_add_panels(browser, tmp_path):
    made = ViewerRun("one").add_all(RECORDS[:1])
    script = SCRIPT.replace("SENTENCE", json.dumps(made.sentences[0])).replace(
        "WEIGHTS", json.dumps(encode_weights(made.weights))
    )
    live = ViewerRun("live", sites=made.sites, units=made.units)
    with open_viewer(browser, tmp_path, viewer_page("live", [live], extension=Extension(scripts=[script]))) as page:
        page.locator(".off").wait_for()
        assert page.locator(".off").evaluate_all("all => all.map(({dataset}) => dataset.place)") == ["0,0,cross,1,0"]
        assert page.locator(".more").all_text_contents() == ["0 0"]
        page.evaluate("switchedOff = 2; viewer.draw()")
        assert page.locator(".off").evaluate_all("all => all.map(({dataset}) => dataset.place)") == ["0,0,cross,1,2"]
