"""The live page in Chromium, over runs with random weights: what a person does, and what the page then shows."""

import re
from contextlib import contextmanager
from urllib.parse import quote, unquote

import numpy as np
import pytest

from qkv.live.live_run import LiveRun
from qkv.live.page import find_examples
from qkv.live.question import LogitQuestion, Question, RowQuestion
from qkv.live.server import serve
from tests.support.axe import find_violations
from tests.support.pages import open_page
from tests.support.random_runs import random_run

TEXT = "the small cat sees Éva"
OTHER = "le chat voit le chien"
UNKNOWN = "Unknown to the model: “small”."
"""Most of its letters are tokens of one letter each."""


@pytest.fixture(scope="module")
def live(tokenizer, tmp_path_factory):
    run = random_run(tokenizer, tmp_path_factory.mktemp("one"))
    assert not find_examples(run)  # its text is not there
    return LiveRun(run, "one")


@pytest.fixture(scope="module")
def served(live):
    with serve([live]) as page:
        yield page


@pytest.fixture
def page(browser, served):
    with open_live(browser, served.address) as page:
        yield page


@contextmanager
def open_live(browser, address, **settings):
    with open_page(browser, address, **settings) as page:
        page.wait_for_selector("#extension[data-ready=true]", state="attached")
        yield page


def ask(page, text=TEXT):
    page.fill("[data-part=text]", text)
    page.keyboard.press("Enter")
    settle(page)


def settle(page):
    page.wait_for_selector("[data-part=form]:not([aria-busy])")


def tokens(page, row=0):
    return page.locator(".translation").nth(row).locator(".token").all_inner_texts()


def test_a_sentence_is_translated_and_its_attention_is_drawn(page, live):
    ask(page)
    facts = live.answer(Question(text=TEXT)).facts
    assert [text.replace("\xa0", " ").strip() for text in tokens(page)] == [
        piece.replace("▁", " ").strip() or "␣" for piece in facts["sentence"]["target"]
    ]
    assert page.locator("#list .row").count() == 1
    assert page.locator(".run:not(.absent) svg .cell").count() > 0
    assert page.inner_text("[data-part=status]") == UNKNOWN


def test_a_paragraph_is_translated_by_sentences_and_each_is_shown(page, live):
    texts = [f"{TEXT} .", f"{OTHER} .", f"{TEXT} le chien !"]
    page.fill("[data-part=text]", "{}  {}\n\n{}\n".format(*texts))
    page.get_by_role("button", name="Translate").click()
    settle(page)
    facts = [live.answer(Question(text=text)).facts["sentence"] for text in texts]
    translations = [one["hypothesis"] for one in facts]
    assert page.locator(".paragraph p").evaluate("p => p.textContent") == "{}  {}\n\n{}".format(*translations)
    assert page.locator("#list .row").count() == 3
    status = f"{UNKNOWN} The model was trained on other text: the vocabulary has no '.'."
    assert page.inner_text("[data-part=status]") == status
    link = page.locator(".paragraph a").nth(1)
    link.focus()
    page.keyboard.press("Enter")
    assert [one.get_attribute("aria-current") for one in page.locator(".paragraph a").all()] == [None, "true", None]
    assert page.evaluate("document.activeElement.textContent") == translations[1]
    assert len(tokens(page)) == len(facts[1]["target"]) and page.locator("#texts").inner_text().count(texts[1]) == 1
    assert page.evaluate("viewer.store.state.id") == 1
    page.locator(".paragraph p").press("j")
    assert page.locator(".paragraph a[aria-current]").inner_text() == translations[2]
    address = page.evaluate("linkTo(livePanel.case)")
    assert texts[2] in unquote(address) and texts[1] not in unquote(address)


def test_without_sentencex_a_paragraph_is_one_sentence_and_that_is_said(page, live, monkeypatch):
    monkeypatch.setattr(live, "divide", lambda text: None)
    ask(page, f"{TEXT} . {OTHER} .")
    assert page.locator("#list .row").count() == 1 and page.locator(".paragraph").count() == 0
    assert page.inner_text("[data-part=status]").endswith(
        "sentencex, which divides texts into sentences, is not installed."
    )
    ask(page, TEXT)
    assert page.inner_text("[data-part=status]") == UNKNOWN


def test_a_run_without_examples_begins_empty_and_asks_for_a_sentence(page):
    assert page.locator("#list .row").count() == 0 and page.locator(".token").count() == 0
    ask(page, "   ")
    assert page.inner_text("[data-part=status]") == "Type a sentence first."
    assert page.evaluate("document.activeElement.dataset.part") == "text"


def test_markup_that_is_typed_stays_text(page):
    ask(page, "<img src=x onerror=alert(1)> </script><b>猫</b>")
    assert "<img src=x" in page.locator("#list .row").first.inner_text()
    assert page.locator("main b, main img, nav b, nav img").count() == 0


def test_heads_are_switched_on_their_pictures_and_undone(page):
    ask(page)
    page.click("[aria-label='off: layer 0, head 0']")
    settle(page)
    assert page.locator(".chip").all_inner_texts() == ["cross-attention, layer 0, head 0: off ×"]
    assert page.locator(".run:not(.absent)").count() == 2
    assert page.locator(".heads .switched-zeroed").count() == 1
    assert "Log-probability" in page.inner_text(".comparison")
    page.get_by_role("button", name="Undo", exact=True).click()
    settle(page)
    assert page.locator(".chip").count() == 0 and page.locator(".comparison").count() == 0
    assert page.locator(".run:not(.absent)").count() == 1


def test_a_layer_is_changed_at_once_and_each_change_taken_back(page, live):
    ask(page)
    page.get_by_text("Change this head or layer").click()
    layer = page.get_by_role("group", name="all heads of layer 0")
    for name, kind in (("off", "zeroed"), ("even", "uniform"), ("shuffled", "permuted")):
        layer.first.get_by_role("button", name=name, exact=True).click()
        settle(page)
        assert page.locator(".chip").count() == 3
        changes = [{"site": "cross", "layer": 0, "head": head, "change": kind} for head in range(3)]
        expected = live.answer(Question.model_validate({"text": TEXT, "changes": changes})).facts
        total = f"{expected['logProbability']:.2f}".replace("-", "−")
        assert total in page.inner_text(".comparison")
    page.locator(".chip").first.click()
    settle(page)
    assert page.locator(".chip").count() == 2
    page.get_by_role("button", name="Undo all").click()
    settle(page)
    assert page.locator(".chip").count() == 0


@pytest.mark.minutes
def test_a_token_is_replaced_and_the_translation_goes_on(page, live):
    ask(page)
    page.locator(".token").nth(1).click()
    page.get_by_text("What else was likely").click()
    options = page.locator(".alternatives li")
    assert 2 <= options.count() <= 8 and "%" in options.first.inner_text()
    page.locator(".alternatives button:not([disabled])").nth(1).click()
    settle(page)
    assert page.locator(".chip").inner_text().startswith("begins with")
    assert page.locator(".translation").nth(1).locator(".token.given").count() == 2
    assert re.search("tokens? differ", page.inner_text(".comparison")) and page.locator(".token.differing").count() > 0


@pytest.mark.minutes
def test_weight_is_moved_within_a_row(page):
    ask(page)
    page.locator(".run:not(.absent) .heads button").nth(2).click()
    page.locator(".token").nth(1).click()
    page.get_by_text("Move weight within this row").click()
    sliders = page.locator(".sliders input")
    sliders.first.fill("1")
    page.wait_for_selector(".moving .alternatives")
    shares = [float(text) for text in page.locator(".sliders output").all_inner_texts()]
    assert shares[0] == 1 and sum(shares) == pytest.approx(1, abs=0.01 * len(shares))
    assert "before" in page.locator(".moving .alternatives").inner_text()
    page.get_by_role("button", name="As the model has it").click()
    assert page.locator(".moving .alternatives").count() == 0


@pytest.mark.minutes
def test_one_of_the_best_translations_is_shown_instead(page):
    page.get_by_role("button", name="More").click()
    page.select_option("[data-part=beam]", "5")
    ask(page)
    page.get_by_text("5 translations").click()
    second = page.locator(".n-best li button").nth(1)
    text = second.inner_text()
    second.click()
    settle(page)
    assert page.locator(".n-best [aria-current=true]").inner_text() == text
    assert page.locator("#texts").inner_text().count(text) >= 1


@pytest.mark.minutes
def test_a_link_holds_the_sentence_and_the_changes(browser, served, page):
    ask(page)
    page.get_by_text("Change this head or layer").click()
    page.locator(".switches button", has_text="off").first.click()
    settle(page)
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Copy link").click()
    address = page.evaluate("location.href")
    assert "#live=" in address
    with open_live(browser, address) as other:
        assert other.locator(".chip").count() == page.locator(".chip").count()
        assert other.inner_text(".comparison") == page.inner_text(".comparison")


@pytest.mark.parametrize(
    "fragment", ["{", '{"text": 5}', '{"text": "a", "beam": 99, "edits": [{"heads": [{"site": "x"}]}]}']
)
def test_a_link_of_nonsense_is_harmless(browser, served, fragment):
    with open_live(browser, f"{served.address}#live={quote(fragment)}") as page:
        ask(page)
        assert page.locator(".token").count() > 0


def test_cases_are_saved_in_the_folder_of_the_run(page, live):
    ask(page)
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Save for the run").click()
    settle(page)
    told = page.inner_text("[data-part=status]")
    assert re.search(r"live.0001$", told) and (live.run.directory.root / "live" / "0001" / "sentences.jsonl").is_file()


def test_a_run_without_examples_has_no_tour(page):
    """What it shows is found in them; see test_tour.py."""
    assert page.locator("[data-part=start-tour]").is_hidden() and page.locator("[data-part=examples]").is_hidden()


@pytest.mark.minutes
def test_a_page_of_another_origin_shows_it_in_a_frame(browser, served, tmp_path):
    """As notebooks do."""
    (tmp_path / "notebook.html").write_text(f'<html data-ready="true">{served._repr_html_()}', encoding="utf-8")
    context = browser.new_context()
    notebook = context.new_page()
    notebook.goto((tmp_path / "notebook.html").as_uri())
    frame = notebook.frame_locator("iframe")
    frame.locator("[data-part=text]").fill(TEXT)
    frame.get_by_role("button", name="Translate").click()
    frame.locator(".token").first.wait_for()
    context.close()


@pytest.mark.minutes
def test_two_runs_answer_side_by_side(browser, live, tokenizer, tmp_path):
    with (
        serve([live, LiveRun(random_run(tokenizer, tmp_path, num_heads=2), "two")]) as both,
        open_live(browser, both.address) as page,
    ):
        ask(page)
        assert page.locator(".run:not(.absent)").count() == 2 and page.locator(".translation").count() == 2
        assert page.locator(".run h2").first.inner_text() == "one"


def test_an_answer_after_the_program_has_ended_is_told(browser, live):
    with serve([live]) as page_of_it:
        opened = browser.new_page()
        opened.goto(page_of_it.address)
        opened.wait_for_selector("#extension[data-ready=true]", state="attached")
    ask(opened)
    assert "has ended; start it again" in opened.inner_text("[data-part=status]")
    opened.close()


def choose_cell(page, row, column):
    """Chooses a cell and opens the parts of its score, which stay open."""
    page.locator(f".run:not(.absent) .cell[data-row='{row}'][data-column='{column}']").first.click()
    if not page.locator("details[open] > .score").count():
        page.get_by_text("Why this head looks there").click()
    page.wait_for_selector(".score:not([aria-busy]) select")


@pytest.mark.minutes
def test_a_chosen_cell_says_which_parts_gave_its_score(page, live):
    ask(page)
    assert page.locator(".word").count() == 0
    page.get_by_role("button", name="layer 0, head 1", exact=True).click()
    page.locator("[name=words]").uncheck()
    choose_cell(page, 2, 3)
    ids = live.answer(Question(text=TEXT)).facts["ids"]
    question = {"text": TEXT, "target": ids, "site": "cross", "layer": 0, "head": 1, "query": 2}
    facts = live.explain(RowQuestion.model_validate(question))
    assert page.locator(".score select").input_value() == "3"
    parts = sorted((abs(x), x) for row in facts["differences"][3] for x in row)
    shown = [float(text.replace("−", "-")) for text in page.locator(".pairs .share").all_inner_texts()]
    assert shown[:-1] == [pytest.approx(x, abs=0.006) for _, x in parts[: -len(shown) : -1]]
    assert sum(shown) == pytest.approx(np.sum(facts["differences"][3]), abs=0.06)
    assert f"{facts['scores'][3]:.2f}".replace("-", "−") in page.inner_text(".score p")
    page.select_option(".score select", "1")
    first = page.locator(".pairs .share").first.inner_text()
    assert abs(float(first.replace("−", "-"))) == pytest.approx(np.abs(facts["differences"][1]).max(), abs=0.006)
    choose_cell(page, 1, 0)
    assert page.locator(".score select").input_value() == "0"
    page.keyboard.press("Escape")
    assert page.locator(".word").count() == 0


@pytest.mark.minutes
def test_a_chosen_token_says_what_gave_its_logit_with_a_bar_under_each_source_word(page, live):
    ask(page)
    page.locator(".translation .token").nth(1).click()
    page.get_by_text("Why this word", exact=True).click()
    page.wait_for_selector(".logit .under")
    ids = live.answer(Question(text=TEXT)).facts["ids"]
    facts = live.split(LogitQuestion(text=TEXT, target=ids, query=1))
    shown = [float(text.replace("−", "-")) for text in page.locator(".under .share").all_inner_texts()]
    assert shown == [pytest.approx(value, abs=0.006) for _, value in facts["sources"]]
    heights = page.locator(".under .bar").evaluate_all("all => all.map((one) => one.getBoundingClientRect().height)")
    largest = max(abs(value) for _, value in facts["sources"])
    assert heights == [pytest.approx(48 * abs(value) / largest, abs=1) for _, value in facts["sources"]]
    against = page.locator(".under .bar").evaluate_all("all => all.map((one) => one.classList.contains('against'))")
    assert against == [value < 0 for _, value in facts["sources"]] and len(set(against)) == 2
    assert f"{facts['total']:+.2f}".replace("-", "−") in page.inner_text(".logit")
    page.locator(".translation .token").nth(2).click()  # stays unfolded
    page.wait_for_selector(".logit .under li")


@pytest.mark.minutes
def test_only_single_heads_of_what_the_model_has_are_explained(page):
    ask(page)
    page.get_by_role("button", name="layer 0, mean", exact=True).click()
    page.locator(".run:not(.absent) .cell").first.click()
    assert page.locator(".word").count() == 1 and page.locator(".score").count() == 0
    page.select_option("[name=site]", "decoder")
    page.get_by_role("button", name="layer 0, head 0", exact=True).click()
    page.locator("[name=words]").uncheck()
    choose_cell(page, 2, 1)
    assert page.locator(".score option").count() == 3  # those that the row may look at
    page.click("[aria-label='off: layer 0, head 1']")
    settle(page)
    page.wait_for_selector(".score:not([aria-busy]) select")
    assert page.locator(".run:not(.absent)").count() == 2 and page.locator(".score").count() == 1


def test_phones_and_dark_screens_show_the_page(browser, served, live):
    with open_live(browser, served.address, viewport={"width": 390, "height": 800}, color_scheme="dark") as page:
        ask(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="layer 0, head 0", exact=True).click()
        choose_cell(page, 0, 0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        inside = "all => all.every((one) => one.scrollWidth <= one.clientWidth + 1)"
        assert page.locator(".score, .pairs li, .pairs .pair").evaluate_all(inside)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        controls = page.locator("button, input, select, textarea").evaluate_all(
            "all => all.map((one) => one.labels?.length || one.textContent.trim() || one.getAttribute('aria-label'))"
        )
        assert all(controls)  # a screen reader has a name for each


def test_the_picture_comes_first(browser, served):
    """On a screen of 1280 x 900 it begins in the upper part; on a phone right below the sentence."""
    for width, height, most in ((1280, 900, 400), (390, 844, 422), (360, 740, 430)):
        with open_live(browser, served.address, viewport={"width": width, "height": height}) as page:
            ask(page)
            top = page.locator(".matrix .body").bounding_box()["y"]
            assert top < most, (width, top)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            line = page.locator(".translation").bounding_box()
            assert page.locator(".view").bounding_box()["y"] - (line["y"] + line["height"]) < 60
            texts = page.locator("#extension > :not(form, [hidden]), #runs").all_inner_texts()
            assert not any(TEXT in text for text in texts)  # it stands in the field alone
            page.locator(".heads .switch").nth(1).click()
            settle(page)
            if width > 1000:
                assert page.locator(".matrix .body").first.bounding_box()["y"] < most


def test_pictures_side_by_side_are_level(browser, served, page):
    """The original and the changed picture begin at the same height and have cells of the same size."""
    ask(page)
    page.locator(".heads .switch").nth(2).click()
    settle(page)
    for view in ("matrix", "lines"):
        page.locator(f"[name=view][value={view}]").check()
        pictures = page.locator(".run:not(.absent) .picture").all()
        tops = [picture.bounding_box()["y"] for picture in pictures]
        assert len(tops) == 2 and tops[0] == pytest.approx(tops[1], abs=0.5)
    page.locator("[name=view][value=matrix]").check()
    bodies = [body.locator(".cell").first.bounding_box() for body in page.locator(".matrix .body").all()]
    assert bodies[0]["y"] == pytest.approx(bodies[1]["y"], abs=0.5)
    assert (bodies[0]["width"], bodies[0]["height"]) == (bodies[1]["width"], bodies[1]["height"])


@pytest.mark.minutes
def test_a_chosen_word_shows_its_query_keys_and_values(page, live):
    """The numbers are those of `LiveRun.row`, which is tested against NumPy."""
    ask(page)
    page.get_by_role("button", name="layer 0, head 1", exact=True).click()
    page.locator(".translation .token").nth(2).click()
    page.wait_for_selector(".vectors .keys")
    ids = live.answer(Question(text=TEXT)).facts["ids"]
    place = {"text": TEXT, "target": ids, "layer": 0, "head": 1, "query": 2}
    check_vectors(page, live.row(RowQuestion(**place, site="cross")))
    first = page.locator(".keys .strip").first
    first.focus()
    assert "key of" in page.inner_text(".readout")
    page.keyboard.press("ArrowRight")
    assert "value of" in page.inner_text(".readout")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("value of")
    first.hover(position={"x": 1, "y": 5})
    assert "number 1 of 4:" in page.inner_text(".readout")
    page.get_by_role("button", name="Close").click()
    assert page.locator(".word").count() == 0
    page.select_option("[name=site]", "encoder")
    assert page.locator("[name=side]").is_hidden()  # rows of the encoder have one kind of label
    page.locator("[name=words]").uncheck()
    page.locator(".matrix .rows text").nth(3).click()
    page.wait_for_selector(".vectors .keys")
    check_vectors(page, live.row(RowQuestion(**place | {"query": 3}, site="encoder_self")))
    assert page.get_by_text("Why this word", exact=True).count() == 0  # the encoder predicts nothing
    page.get_by_role("button", name="layer 0, mean", exact=True).click()
    assert page.locator(".vectors").count() == 0
    page.get_by_role("button", name="head 2", exact=True).click()
    page.wait_for_selector(".vectors .keys")


def check_vectors(page, facts):
    """Compares every number of the shown row with that of the answer."""

    def numbers(selector):
        return [float(text.replace("−", "-")) for text in page.locator(selector).all_inner_texts()]

    shown = page.locator(".keys tr th[scope=row]").all_inner_texts()
    assert shown == [token.replace("▁", " ").strip() or token for token in facts["tokens"]]
    cells = np.reshape(numbers(".keys td.number"), (-1, 3))
    expected = np.stack([facts["products"], facts["scores"], facts["weights"]], axis=1)
    np.testing.assert_allclose(cells, expected, atol=0.0051)
    words = page.locator(".keys .alone span").all_inner_texts()
    assert words == [token.replace("▁", " ").strip() or token for token in facts["words"]]
    strips = page.locator(".strip").evaluate_all(
        "all => all.map((strip) => [...strip.children].map((cell) =>"
        " (cell.matches('.negative') ? -1 : 1) * Number(cell.getAttribute('fill-opacity'))))"
    )
    query, keys, values, context = strips[0], strips[1:-1:2], strips[2:-1:2], strips[-1]
    for vectors, name in (([query], "query"), (keys, "keys"), (values, "values"), ([context], "context")):
        wanted = np.atleast_2d(facts[name])
        np.testing.assert_allclose(vectors, wanted / np.abs(wanted).max(), atol=0.0006)


def test_unknown_words_are_marked_in_the_sentence(live, page):
    """A word is known if it is one token, or one of the words of the training text that are several."""
    source = live.answer(Question(text=TEXT)).facts["sentence"]
    pieces = [source["sourceWords"].count(word) for word in range(5)]
    words = TEXT.split()
    split = [word for word, count in zip(words, pieces, strict=True) if count > 1]
    assert split and len(split) < len(words)
    page.evaluate("(words) => { livePanel.backend.runs[0].splitWords = words; }", split[1:])
    ask(page)
    marks = page.locator(".marks .unknown")
    assert [text.lower() for text in marks.all_inner_texts()] == [split[0].lower()]
    assert marks.first.get_attribute("title").endswith("never seen in training, so it is read in pieces")
    marks.first.click()
    start = TEXT.lower().index(split[0].lower())
    selected = page.locator("textarea").evaluate("field => [field.selectionStart, field.selectionEnd]")
    assert selected == [start, start + len(split[0])]
    page.keyboard.type("x")
    assert page.locator(".marks .unknown").count() == 0
    ask(page, f"{words[0]} ☃猫")
    assert "vocabulary lacks" in page.locator(".marks .unknown").first.get_attribute("title")


STATES = {
    "form": lambda page: None,
    "word": lambda page: page.locator(".token").nth(1).click(),
    "why": lambda page: [summary.click() for summary in page.locator(".word summary").all()],
    "changed": lambda page: page.locator(".heads .switch").nth(1).click(),
    "more": lambda page: page.locator("[data-part=more]").click(),
    "error": lambda page: page.evaluate("livePanel.enqueue('', () => { throw new Error('no'); })"),
}


@pytest.mark.minutes
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_axe_finds_nothing_in_any_state(browser, served, width, scheme):
    with open_live(browser, served.address, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        ask(page)
        page.locator(".run:not(.absent) .heads button").nth(2).click()
        for name, act in STATES.items():
            act(page)
            settle(page)
            page.wait_for_timeout(100)
            assert find_violations(page) == [], name
