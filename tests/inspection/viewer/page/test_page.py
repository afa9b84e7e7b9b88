"""The page that shows every sentence: what is in the file."""

import re
from dataclasses import replace

import numpy as np
import pytest

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import Extension, viewer_page
from tests.support.viewer import GOLD, HEADS, HOSTILE, LAYERS, RECORDS, SCORES, embedded, make_record


@pytest.fixture(scope="module")
def page():
    return viewer_page(
        "a & <title>", [ViewerRun("one", GOLD, SCORES).add_all(RECORDS)], opens_at={"layer": 1, "head": 2}
    )


def test_every_weight_is_in_the_page_to_five_digits(page):
    data, weights = embedded(page)
    expected = np.concatenate([w.ravel() for record in RECORDS for w in record.attention.values()])
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert data["runs"][0]["sites"] == {"cross": [LAYERS, HEADS], "encoder": [1, HEADS]}
    assert [sentence["source"] for sentence in data["runs"][0]["sentences"]] == [r.source_tokens for r in RECORDS]


def test_text_cannot_end_the_element_that_holds_it(page):
    assert page.count("</script>") == 4 and page.count("<script") == 4  # words, data, weights, script
    assert embedded(page)[0]["runs"][0]["sentences"][1]["sourceText"] == HOSTILE
    assert "<title>a &amp; &lt;title&gt;</title>" in page


def test_the_page_loads_nothing_from_outside(page):
    outside = re.sub(r'id="(data|weights)">.*?</script>', "", page, flags=re.S)
    assert re.findall(r"https?://[^\"']+", outside) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert not re.search(r"<(link|img|iframe)|\ssrc=|@import|url\(|fetch\(|XMLHttpRequest", outside)


def test_plain_text_stands_beside_a_tokenised_translation():
    page = viewer_page(
        "title", [ViewerRun("one", plain=str.capitalize).add_all(RECORDS[:1]), ViewerRun("other").add_all(RECORDS[:1])]
    )
    assert [run["sentences"][0]["plain"] for run in embedded(page)[0]["runs"]] == ["Le chat noir dort", None]


def test_runs_without_sentences_or_attention_make_a_page():
    empty = make_record(0, "a b", "c")
    empty = replace(empty, attention={"cross": np.zeros((0, 1, 2, 3), "float32")})
    for run in (ViewerRun("none"), ViewerRun("no attention").add_all([empty])):
        assert "</html>" in viewer_page("title", [run])


def test_a_page_takes_scripts_styles_elements_and_a_wider_policy(page):
    changed = viewer_page(
        "title",
        [ViewerRun("live", sites={"cross": [1, 2]}, units={"source": "spaces", "target": "spaces"})],
        extension=Extension(
            scripts=["const added = 1;"],
            style="#box { color: red; }",
            html='<form id="box"></form>',
            policy={"connect-src": "'self'"},
        ),
    )
    assert "connect-src 'self'" in changed and "connect-src" not in page
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\"" in page
    assert '<div id="extension"><form id="box"></form></div>' in changed
    assert changed.index("const viewer") < changed.index("const added = 1;")
    assert changed.index("#box { color: red; }") < changed.index("</style>")
