"""Sentences to unlearn: each opens by its address, has the numbers of the run, and shows itself on the page."""

import re

import pytest

from tests.support.explained import read_address, wait_for
from tests.support.viewer import press, wait_until

NUMBERS = range(1, 11)
SHOWN = {  # what the link of a sentence sets
    1: {"section": "plane", "asker": "cat", "planeScore": "dot"},
    2: {"section": "steps", "site": "cross"},
    3: {"section": "sites"},
    4: {"section": "steps"},
    5: {"section": "answer"},
    6: {"section": "changes", "unscaled": "yes"},
    7: {"section": "sites"},
    8: {"section": "changes", "rawVectors": "yes"},
    9: {"section": "questions", "question": "12"},
    10: {"section": "steps"},
}


def body(number):
    return f"#unlearn [data-unlearn='{number}'] .unlearn-body"


@pytest.mark.parametrize("number", NUMBERS)
def test_an_address_opens_its_sentence_alone_and_the_link_shows_it(browser, explained, number):
    with explained.open(browser, f"#section=unlearn&unlearn={number}", "?lang=en") as page:
        wait_until(
            page,
            f'document.querySelector("{body(number)} a.try")'
            f' && !document.querySelector("{body(number)} .figure:empty")',
        )
        assert page.locator("#unlearn details[open]").count() == 1
        assert page.locator(f"#unlearn [data-unlearn='{number}'][open]").count() == 1
        assert page.locator(f"{body(number)} .figure").count() == (number != 1)
        links = page.locator(f"{body(number)} a.try")
        assert f"unlearn={number}" in links.nth(1).get_attribute("href")
        links.first.press("Enter")
        state = read_address(page)
        assert state.items() >= SHOWN[number].items()


def test_a_sentence_opens_and_closes_by_the_keyboard(page):
    page.locator("#unlearn summary").nth(4).focus()
    press(page, ["Enter"])
    wait_for(page, body(5), "matrices of a head")
    assert read_address(page)["unlearn"] == "5"
    press(page, ["Shift+Tab", "Enter"])
    wait_for(page, body(4), "In your sentence")
    assert page.locator("#unlearn details[open]").count() == 1
    press(page, ["Enter"])
    wait_until(page, "!document.querySelector('#unlearn details[open]')")
    assert "unlearn" not in read_address(page)


def test_the_numbers_are_those_of_the_run_and_the_sentence(page, explained):
    def numbers(number):
        page.evaluate(f"explained.set({{ unlearn: {number} }})")
        wait_until(page, f'document.querySelector("{body(number)} .figure")?.textContent')
        return re.findall(r"[\d.,]*\d", page.inner_text(f"{body(number)} .figure"))

    changes = page.evaluate("explained.facts.measured.changes")
    model = explained.run.config.model
    source, target = page.evaluate("[explained.answer.source.ids.length, explained.answer.target.ids.length]")
    for number, name in ((2, "values := keys"), (3, "keys := values"), (8, "raw vectors")):
        assert numbers(number) == [f"{100 * changes[name]:.1f}", f"{100 * changes['as it is']:.1f}"]
    heads = model.num_heads * (model.encoder_layers + 2 * model.decoder_layers)
    size = model.d_model // model.num_heads
    assert numbers(4) == [str(source * model.decoder_layers * model.num_heads), str(source), str(target)]
    assert numbers(5) == [str(3 * model.d_model * size), str(heads)]
    assert numbers(6) == [str(size), f"{size**0.5:.2f}"]
    assert numbers(7) == [str(source + target), str(source * target), str(target), str(source)]
    before, added, after = map(float, numbers(10))
    assert abs(before - added) - 0.2 <= after <= before + added + 0.2
    inside = page.evaluate("(() => { const { before, sum } = explained.inside(); return [[...before], [...sum]]; })()")
    assert after == pytest.approx(sum(value**2 for value in inside[1]) ** 0.5, abs=0.06)


def test_the_link_to_unlearn_the_first_can_be_opened_in_a_new_window(browser, explained):
    with explained.open(browser, "#unlearn=1", "?lang=en") as page:
        href = page.locator(f"{body(1)} a.try").first.get_attribute("href")
    with explained.open(browser, href, "?lang=en") as page:
        assert "equally long" in page.inner_text("#plane .plane-goal")


@pytest.mark.parametrize("value", ["0", "11", "x", "constructor"])
def test_an_address_of_no_sentence_opens_none(browser, explained, value):
    with explained.open(browser, f"#unlearn={value}", "?lang=en") as page:
        assert page.locator("#unlearn details[open]").count() == 0
