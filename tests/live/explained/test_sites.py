"""Where queries, keys and values come from: the matrices are those of the sentence, and the future is barred."""

import numpy as np
import pytest

from tests.support.explained import read_address
from tests.support.viewer import press, wait_until

SITES = {"encoder": "encoder_self", "decoder": "decoder_self", "cross": "cross"}


def read_matrix(page, site):
    """The weights that the picture of a site shows, row after row; not-a-number for a barred cell."""
    cells = page.locator(f"#sites [data-site={site}] .matrix .cell")
    values = cells.evaluate_all("cells => cells.map((cell) => cell.getAttribute('fill-opacity'))")
    return np.array([np.nan if value is None else float(value) for value in values])


def read_weights(page, site, layer, head):
    rows = page.evaluate("([site, layer, head]) => explained.weights(site, layer, head)", [SITES[site], layer, head])
    return np.array(rows).ravel()


@pytest.mark.parametrize("site", SITES)
def test_a_matrix_shows_the_weights_of_the_chosen_head(page, site):
    np.testing.assert_allclose(np.nan_to_num(read_matrix(page, site)), read_weights(page, site, 0, 0), atol=6e-4)
    page.locator(f"#sites [name={site}Head]").focus()
    press(page, ["ArrowDown"] * 4)
    assert read_address(page)[f"{site}Head"] == "1.1"
    shown = np.nan_to_num(read_matrix(page, site))
    np.testing.assert_allclose(shown, read_weights(page, site, 1, 1), atol=6e-4)
    rows = page.locator(f"#sites [data-site={site}] .matrix text.is-query").count()
    np.testing.assert_allclose(shown.reshape(rows, -1).sum(axis=1), 1, atol=0.02)


def test_the_future_is_barred_in_the_decoder_alone(page):
    size = page.evaluate("explained.answer.target.ids.length")
    assert np.isnan(read_matrix(page, "decoder")).sum() == size * (size - 1) // 2
    assert page.locator("#sites [data-site=decoder] .bars").count() == size * (size - 1) // 2
    assert np.triu(np.isnan(read_matrix(page, "decoder")).reshape(size, size), 1).sum() == size * (size - 1) // 2
    assert not np.isnan(read_matrix(page, "encoder")).any()
    assert not np.isnan(read_matrix(page, "cross")).any()


def test_the_matrices_follow_the_sentence(page):
    page.evaluate("explained.set({ sentence: 'the dog' })")
    wait_until(page, "explained.answer.asked === 'the dog'")
    source, target = page.evaluate("[explained.answer.source.ids.length, explained.answer.target.ids.length]")
    assert len(read_matrix(page, "encoder")) == source * source
    assert len(read_matrix(page, "decoder")) == target * target
    assert len(read_matrix(page, "cross")) == target * source
    assert f"weights {target} × {source}" in page.inner_text("#sites [data-site=cross] .shapes")


def test_an_address_chooses_the_heads_and_a_false_one_the_first(browser, explained):
    with explained.open(browser, "#encoderHead=1.2&crossHead=7.7&decoderHead=__proto__", "?lang=en") as page:
        values = [page.input_value(f"#sites [name={site}Head]") for site in SITES]
        assert values == ["1.2", "0.0", "0.0"]
        np.testing.assert_allclose(read_matrix(page, "encoder"), read_weights(page, "encoder", 1, 2), atol=6e-4)


def test_pictures_say_in_words_what_they_show(page):
    labels = page.locator("#sites svg").evaluate_all(
        "pictures => pictures.map((svg) => svg.getAttribute('aria-label'))"
    )
    assert len(labels) == 8
    assert all(labels)
    weights = page.evaluate("explained.weights('cross', 0, 0)[0]")
    assert f"{max(weights):.2f}" in page.get_attribute("#sites [data-site=cross] .matrix", "aria-label")
