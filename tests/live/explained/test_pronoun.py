"""The pronoun and its noun: what the page counts and computes is what `qkv explain --pronouns` does."""

import re

import numpy as np
import pytest

from qkv.inspection.experiments.pronouns import control_sets, find_pointing_heads, measure_without
from tests.support.explained import COUNTED, POINTING, read_address, wait_for
from tests.support.pages import open_page
from tests.support.viewer import press, wait_until

CASE = "explained.facts.measured.pronouns"


def result(page, name):
    return float(page.locator(f"#pronoun [data-result={name}] td").first.inner_text())


def switch(page, name):
    return page.locator(f"#pronoun [data-focus='head {name}']")


@pytest.mark.parametrize("off", [[], [[0, 1], [1, 2]], [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]])
def test_the_probability_of_the_right_pronoun_is_that_of_python(page, explained, off):
    for number, case in enumerate(explained.cases[:2]):
        answer = page.evaluate(f"([number, off]) => readPronoun(explained.model, {CASE}[number], off)", [number, off])
        expected = measure_without(explained.run.model, [case], [tuple(head) for head in off])
        assert answer["right"] == pytest.approx(expected, abs=1e-4)
        ours, theirs = answer["probabilities"]
        assert ours / (ours + theirs) == pytest.approx(expected, abs=1e-4)


def test_the_heads_that_point_are_counted_as_in_python(page, explained):
    table = find_pointing_heads(explained.run.model, explained.cases[1 : 1 + COUNTED])
    found = page.evaluate("explained.pronouns.pointing")
    for row in table.itertuples():
        assert found["counts"][row.layer][row.head] == row.points
    expected = table[table["points"] > COUNTED / 2].sort_values(["layer", "head"])
    assert found["heads"] == expected[["layer", "head"]].to_numpy().tolist()
    assert list(POINTING) in found["heads"]


@pytest.mark.parametrize(
    ("heads", "layers", "count"),
    [([(0, 1)], 1, 3), ([(0, 1), (1, 2)], 2, 4), ([(1, 0), (1, 3), (2, 2)], 3, 5), ([(0, 0), (0, 1)], 1, 2)],
)
def test_sets_of_other_heads_are_those_of_python(page, heads, layers, count):
    sets = page.evaluate("(given) => controlSets(...given)", [heads, layers, count])
    assert [[tuple(head) for head in one] for one in sets] == [list(one) for one in control_sets(heads, layers, count)]


def test_means_over_all_sentences_are_on_the_page(page, explained):
    counted = explained.cases[1 : 1 + COUNTED]
    means = page.evaluate("explained.facts.measured.pronounMeans")
    heads = [tuple(head) for head in page.evaluate("explained.pronouns.pointing.heads")]
    assert means["all"] == pytest.approx(measure_without(explained.run.model, counted, []))
    assert means["without"] == pytest.approx(measure_without(explained.run.model, counted, heads))
    assert means["sets"] == len(control_sets(heads, 2, 3))
    assert page.locator("#pronoun [data-result=all] td").nth(1).inner_text() == f"{means['all']:.3f}"


def test_a_head_is_switched_off_and_on_by_the_keyboard(page):
    switch(page, "0.1").focus()
    press(page, ["Enter"])
    assert switch(page, "0.1").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.focus") == "head 0.1", "the focus stays"
    assert read_address(page)["pronounOff"] == "0.1"
    expected = page.evaluate(f"readPronoun(explained.model, {CASE}[0], [[0, 1]]).right")
    assert result(page, "now") == pytest.approx(expected, abs=6e-4)
    assert page.locator("#pronoun tr.off").count() == 1
    press(page, ["Tab", "Space"])
    assert read_address(page)["pronounOff"] == "0.1,0.2"
    press(page, ["Space", "Shift+Tab", "Enter"])
    assert "pronounOff" not in read_address(page)
    assert page.locator("#pronoun [data-result=now]").count() == 0


def test_buttons_switch_off_the_pointing_heads_as_many_others_and_none(page):
    heads = page.evaluate("nameHeads(explained.pronouns.pointing.heads)")
    page.locator("#pronoun [data-off=pointing]").click()
    assert read_address(page)["pronounOff"] == heads
    assert result(page, "now") == result(page, "without")
    page.locator("#pronoun [data-off=others]").press("Enter")
    others = read_address(page)["pronounOff"]
    page.locator("#pronoun [data-off=others]").press("Enter")
    assert read_address(page)["pronounOff"] != others, "the next set"
    assert len(others.split(",")) == len(heads.split(","))
    assert not set(others.split(",")) & set(heads.split(","))
    page.locator("#pronoun [data-off=none]").press("Enter")
    assert page.locator("#pronoun tr.off").count() == 0
    wait_until(page, "!document.querySelector('#pronoun[aria-busy]')")


def test_rows_show_the_weights_of_the_pronoun(page, explained):
    rows = page.evaluate(f"readPronoun(explained.model, {CASE}[0]).rows")
    shown = page.locator("#pronoun tbody tr td:not(.count)").evaluate_all(
        "cells => cells.map((cell) => cell.style.getPropertyValue('--weight')).filter(Boolean).map(Number)"
    )
    np.testing.assert_allclose(shown, np.ravel(rows), atol=6e-5)
    assert page.locator("#pronoun thead th.noun").count() == len(explained.cases[0].noun)
    assert page.locator("#pronoun thead th.pronoun").count() == 1


def test_another_sentence_is_chosen_and_the_failing_one_says_so(page):
    last = page.locator("#pronoun [name=pronounCase] option").count() - 1
    assert page.locator("#pronoun .pronoun-fails").count() == 0
    page.select_option("#pronoun [name=pronounCase]", str(last))
    assert read_address(page)["pronounCase"] == str(last)
    right = result(page, "all")
    text = page.inner_text("#pronoun .pronoun-fails")
    assert ("Here it fails" in text) == (right < 0.5)


def test_the_translation_is_written_with_the_heads_off(page, explained):
    wait_for(page, "#pronoun .pronoun-written", "now writes")
    switch(page, "1.0").click()
    wait_until(page, "!document.querySelector('#pronoun[aria-busy]')")
    ids = page.evaluate(f"explained.model.translate({CASE}[0].ids, encoderOff([[1, 0]])).then(({{ ids }}) => ids)")
    text = explained.run.tokenizer.of_target.decode([[token for token in ids if token > 3]])[0]
    assert re.sub(r"\s+", " ", page.inner_text("#pronoun .pronoun-written")).endswith(text.strip())


def test_an_address_opened_again_shows_the_same(browser, explained):
    with explained.open(browser, "#pronounCase=2&pronounOff=0.0,1.2,9.9,x", "?lang=en") as page:
        assert page.input_value("#pronoun [name=pronounCase]") == "2"
        assert page.locator("#pronoun tr.off").count() == 2, "heads that the model does not have are ignored"
        expected = page.evaluate(f"readPronoun(explained.model, {CASE}[2], [[0, 0], [1, 2]]).right")
        assert result(page, "now") == pytest.approx(expected, abs=6e-4)


def test_a_model_that_knows_no_such_sentence_has_no_section(browser, explained, tmp_path):
    text = explained.path.read_text(encoding="utf-8")
    other = tmp_path / "other.html"
    other.write_text(re.sub(r'"pronouns": \[.*?\], "pronounMeans": \{.*?\}', '"pronouns": []', text), encoding="utf-8")
    assert other.read_text(encoding="utf-8") != text
    address = other.as_uri() + "?lang=en#question=10"
    with open_page(browser, address, offline=True) as page:
        assert page.locator("#pronoun").is_hidden()
        assert page.locator("nav [data-section=pronoun]").count() == 0
        wait_for(page, "#questions .question", "This question is about")
