"""Twelve questions: each has an address, asks for a prediction first, and has the run's own answer."""

import re

import keras
import numpy as np
import pytest

from qkv.inspection.experiments.logit_parts import split_logit
from qkv.inspection.experiments.row_steps import row_steps
from qkv.inspection.experiments.score_parts import in_float64
from qkv.text.tokens.special_tokens import BOS
from tests.support.axe import find_violations
from tests.support.explained import SENTENCES, read_address, wait_for
from tests.support.pages import open_page
from tests.support.viewer import press, wait_until

RIGHT = {1: 1, 2: 0, 4: 2, 5: 1, 6: 1}  # the right option of questions with options
PANEL = "#questions .question"


def open_question(browser, explained, number):
    return explained.open(browser, f"#section=questions&question={number}", "?lang=en")


def wait_for_question(page, number):
    wait_until(page, f"document.querySelector('{PANEL}[data-question=\"{number}\"]:not([aria-busy]) h3')")


def read_values(page, number):
    return page.evaluate(f"(async () => QUESTIONS[{number - 1}].values(explained))()")


@pytest.mark.parametrize("number", range(1, 13))
def test_every_question_opens_afresh_and_answers_after_a_prediction(browser, explained, number):
    with open_question(browser, explained, number) as page:
        wait_for_question(page, number)
        assert f"Question {number} of 12" in page.inner_text(f"{PANEL} h3")
        assert page.locator(f"{PANEL} .answer").count() == 0, "the prediction comes first"
        if number in RIGHT:
            page.locator(f"{PANEL} [type=radio]").nth(RIGHT[number]).focus()
            press(page, ["Space"])
        else:
            page.locator(f"{PANEL} [type=range]").press("Home")
        page.locator(f"{PANEL} [type=submit]").press("Enter")
        wait_until(page, f"document.querySelector('{PANEL} .answer')")
        verdict = page.inner_text(f"{PANEL} .verdict")
        if number in RIGHT:
            assert verdict == "Right."
        elif number != 3:
            assert verdict.startswith(("Close: you said 0", "You said 0"))
        assert "{" not in page.inner_text(PANEL)
        assert page.locator(f"{PANEL} fieldset[disabled]").count() == 1
        assert "1 of 12 answered" in page.inner_text("#questions > [role=status]")
        link = page.locator(f"{PANEL} a.try")
        href = link.get_attribute("href")
        section = re.search("section=([a-z]+)", href)[1]
        link.press("Enter")
        assert read_address(page)["section"] == section
        assert page.locator(f"section#{section}").is_visible()


def test_a_wrong_prediction_is_marked_and_the_right_answer_shown(page):
    page.evaluate("explained.set({ question: 4 })")
    wait_for_question(page, 4)
    page.locator(f"{PANEL} [type=radio]").first.check()
    page.locator(f"{PANEL} [type=submit]").click()
    wait_for(page, f"{PANEL} .verdict", "Not quite")
    assert page.inner_text(f"{PANEL} .option.right") == "in cross-attention"
    assert "4 ✗" in page.inner_text("#questions .question-list")
    page.locator(f"{PANEL} [data-step=next]").click()
    wait_for_question(page, 5)
    page.locator(f"{PANEL} [data-step=previous]").click()
    wait_for_question(page, 4)
    assert page.locator(f"{PANEL} .answer").count() == 1, "what was predicted is kept"


def test_without_a_prediction_nothing_is_shown(page):
    wait_for_question(page, 1)
    page.locator(f"{PANEL} [type=submit]").click()
    assert page.locator(f"{PANEL} .answer").count() == 0


def test_the_list_is_walked_by_the_keyboard(page):
    wait_for_question(page, 1)
    page.locator("#questions [data-focus='question 1']").focus()
    press(page, ["Tab", "Tab", "Enter"])
    wait_for_question(page, 3)
    assert read_address(page)["question"] == "3"
    assert page.evaluate("document.activeElement.dataset.focus") == "question 3"
    slider = page.locator(f"{PANEL} [type=range]")
    slider.focus()
    press(page, ["Home", *["ArrowRight"] * 8, "Tab", "Enter"])
    wait_for(page, f"{PANEL} .verdict", "Right.")
    assert page.evaluate("document.activeElement.className") == "answer right", "the answer is read out"


@pytest.mark.minutes
def test_the_product_and_the_weight_are_those_of_numpy(page, explained):
    example = page.evaluate("explained.facts.measured.example")
    source = explained.run.translator.encode([example["text"]])[0]
    model = in_float64(explained.run.model)
    rows = [
        row_steps(
            model, ([*source, 3], [BOS, *example["target"][:-1]]), "decoder.1.cross", head, example["row"], 0
        ).values
        for head in range(3)
    ]
    head = int(np.argmax([row["weights"].max() for row in rows]))
    values = read_values(page, 7)
    assert values["head"] == str(head)
    assert values["answer"] == pytest.approx(rows[head]["weights"].max(), abs=1e-3)
    key = int(rows[head]["weights"].argmax())
    assert float(values["product"].replace("−", "-")) == pytest.approx(rows[head]["products"][key], abs=0.06)
    assert float(values["score"].replace("−", "-")) == pytest.approx(rows[head]["scores"][key], abs=0.006)


def test_the_logit_is_split_as_in_python(page, explained):
    example, logit = page.evaluate("[explained.facts.measured.example, explained.facts.measured.logit]")
    source = explained.run.translator.encode([example["text"]])[0]
    pair = ([*source, 3], [BOS, *example["target"][:-1]])
    parts = split_logit(in_float64(explained.run.model), pair, example["row"], example["target"][example["row"]])
    assert logit["total"] == pytest.approx(parts["difference"].sum(), abs=1e-5)
    assert sum(logit["sources"]) == pytest.approx(logit["cross"], abs=1e-5)
    assert len(logit["sources"]) == len(logit["tokens"]) == len(pair[0])


def test_what_leaving_a_word_out_costs_is_what_it_costs_in_python(page, explained):
    found = page.evaluate("measureRemoval(explained).then(({ drops, agree, rows }) => ({ drops, agree, rows }))")
    source, target = page.evaluate("[explained.answer.source.ids, explained.answer.target.ids]")
    model = explained.run.model

    def log_probabilities(ids):
        read = np.array([[BOS, *target[:-1]]])
        logits = model.decode(read, model.encode(np.array([ids]), training=False), training=False).logits
        rows = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))[0]
        return rows[np.arange(len(target)), target]

    whole = log_probabilities(source)
    shorter = [source[:place] + source[place + 1 :] for place in range(len(source) - 1)]
    drops = np.stack([whole - log_probabilities(ids) for ids in shorter], axis=1)
    np.testing.assert_allclose(found["drops"], drops, atol=2e-3)
    weights = sum(
        np.array(page.evaluate(f"explained.weights('cross', {layer}, {head})"))
        for layer in range(2)
        for head in range(3)
    )
    agree = int((drops.argmax(axis=1) == weights[:, :-1].argmax(axis=1)).sum())
    assert (found["agree"], found["rows"]) == (agree, len(target))


def test_shares_are_those_of_the_test_set(page):
    for number, answer, text in ((8, 97.41, "97.4%"), (9, 20.4, "20.4%")):
        values = read_values(page, number)
        assert values["answer"] == pytest.approx(answer)
        assert (values["share"], values["before"], values["tokens"]) == (text, "99.8%", 5784)


@pytest.mark.parametrize("number", [7, 8, 9, 10, 11])
def test_a_page_without_a_number_says_so(browser, explained, tmp_path, number):
    text = explained.path.read_text(encoding="utf-8")
    start = text.index('"measured": {') + len('"measured": ')
    end = text.index("</script>", start)
    bare = tmp_path / "bare.html"
    bare.write_text(text[:start] + "{}}" + text[end:], encoding="utf-8")
    with open_page(browser, f"{bare.as_uri()}?lang=en#question={number}", offline=True) as page:
        wait_until(page, f"document.querySelector('{PANEL} h3')")
        words = {7: "could not be computed", 10: "This question is about", 11: "could not be computed"}
        assert words.get(number, "has no such number") in page.inner_text(PANEL)
        assert page.locator(f"{PANEL} form").count() == 0


@pytest.mark.parametrize(
    ("fragment", "section"), [("#question=7", "questions"), ("#unlearn=3", "unlearn"), ("#sites", "sites")]
)
def test_a_short_address_leads_to_its_section(browser, explained, fragment, section):
    with explained.open(browser, fragment, "?lang=en") as page:
        top = page.evaluate("section => document.getElementById(section).getBoundingClientRect().top", section)
        assert 0 <= top < 300


@pytest.mark.parametrize("value", ["0", "13", "1.5", "x", ""])
def test_an_address_of_no_question_shows_the_first(browser, explained, value):
    with explained.open(browser, f"#question={value}", "?lang=en") as page:
        wait_for_question(page, 1)


@pytest.mark.minutes
@pytest.mark.parametrize("language", ["fr", "de"])
def test_all_is_said_in_the_language_and_fits_a_narrow_window(browser, explained, language):
    settings = {"viewport": {"width": 360, "height": 800}, "color_scheme": "dark"}
    with explained.open(
        browser, "#question=8&unlearn=5&asker=cat&pronounOff=0.1", f"?lang={language}", **settings
    ) as page:
        wait_until(page, f"document.querySelector('{PANEL} form')")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        titles = [page.inner_text(f"#{name} h2") for name in ("plane", "sites", "pronoun", "unlearn", "questions")]
        assert titles[4] == {"fr": "Douze questions", "de": "Zwölf Fragen"}[language]
        share = page.evaluate("exactShare(0.9974)")
        assert share.replace("\xa0", " ").replace("\u202f", " ") == "99,7 %"
        assert find_violations(page) == []


@pytest.mark.minutes
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_and_used_by_all(browser, explained, scheme):
    fragment = f"#sentence={SENTENCES[0]}&question=7&unlearn=2&asker=cat&pronounOff=0.1,1.0"
    with explained.open(browser, fragment, "?lang=en", color_scheme=scheme) as page:
        wait_for_question(page, 7)
        page.locator(f"{PANEL} [type=submit]").press("Enter")
        wait_until(page, f"document.querySelector('{PANEL} .answer')")
        assert find_violations(page) == []
