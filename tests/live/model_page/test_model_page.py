"""The page that translates by itself, as a person uses it: opened from a file, without a network."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest

from qkv.config import RunConfig
from qkv.errors import InputError
from qkv.inspection.measures import measure_site, sentence_row, under_attended_words
from qkv.inspection.recorder import pair_translations
from qkv.live.live_run import Alternatives
from qkv.live.model_page import write_model_page
from tests.support.axe import find_violations
from tests.support.pages import open_page
from tests.support.random_runs import random_run

PROBES = [{"source": "the cat sees the dog"}, {"source": "le petit chien voit Éva"}]
HOSTILE = "</script><script>document.title='broken'</script> & <b>bold</b> \u202eرجل é 猫 \ud83d\ude00"


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    """A run with random weights, as 16-bit floats hold them, and two probes."""
    run = random_run(tokenizer, tmp_path_factory.mktemp("run"), decoder_layers=2, positions_on="queries_and_keys")
    for variable in run.model.trainable_variables:
        variable.assign(variable.numpy().astype("float16").astype("float32"))
    values = run.config.model_dump()
    values["inspection"]["probes"] = PROBES
    values["decoding"] |= {"beam_size": 1}
    return replace(run, config=RunConfig.model_validate(values))


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "translator.html"
    write_model_page(run, path)
    return path


@pytest.fixture
def page(browser, path):
    with open_page(browser, path.as_uri(), offline=True) as page:
        page.wait_for_selector("#extension[data-ready=true]", state="attached")
        yield page


def type_and_send(page, text):
    page.fill("textarea", text)
    page.press("textarea", "Enter")
    page.wait_for_selector("[data-part=form]:not([aria-busy])")


def switch(page, layer, head):
    """Switches a head of the first run's pictures off or on."""
    page.locator(f"[aria-label='off: layer {layer}, head {head}']").first.click()
    page.wait_for_selector("[data-part=form]:not([aria-busy])")


def sentence(page, run=0):
    return page.evaluate(f"viewer.store.sentence({run}, viewer.store.state.id)")


def test_it_translates_the_first_example_when_it_opens_and_others_when_chosen(page, run):
    assert page.input_value("textarea") == PROBES[0]["source"]
    assert page.locator("#list .row").count() == 1
    page.select_option("[data-part=examples]", PROBES[1]["source"])
    page.wait_for_selector("#sentence-1[aria-selected=true]", state="attached")
    assert page.locator("#list .row").count() == 2
    facts = ["en → fr", "Transformer, 1 + 2 layers × 3 heads", "5,856 parameters", "greedy search"]
    assert page.inner_text("#facts") == " · ".join(facts)
    for part in ("save", "beam"):
        assert page.locator(f"[data-part={part}]").is_hidden()


@pytest.mark.minutes
def test_what_it_shows_is_what_the_run_records(page, run):
    """Texts, tokens, words, log-probabilities, measures, and every weight."""
    lines = ["the cat sees the dog", "  où est  le ☃☃ cœur ?  ", "Hund"]
    translations = run.translator.translate(lines)
    records = run.recorder(["cross", "encoder", "decoder"]).record(pair_translations(lines, None, translations))
    for line, record in zip(lines, records, strict=True):
        type_and_send(page, line)
        shown = sentence(page)
        typed = re.sub(r"\s+", " ", line).strip()
        assert shown["sourceText"] == typed
        assert shown["hypothesis"] == record.hypothesis
        assert shown["source"] == record.source_tokens
        assert shown["target"] == record.target_output_tokens
        assert (shown["sourceWords"], shown["targetWords"]) == (record.source_words, record.target_words)
        assert shown["truncated"] == record.truncated
        np.testing.assert_allclose(shown["logProbabilities"], record.token_log_probabilities, atol=1e-4)
        row = sentence_row(record, measure_site(record))
        for name, value in shown["measures"].items():
            assert value == pytest.approx(row[name], abs=1e-4), name
        assert shown["underAttended"] == row["under_attended"]
        assert shown["underAttendedWords"] == under_attended_words(record)
        for site, weights in record.attention.items():
            for layer, head in np.ndindex(weights.shape[:2]):
                ours = page.evaluate(
                    "([site, layer, head]) => viewer.store.matrix(0, viewer.store.state.id, site, layer, head)"
                    ".map((row) => [...row])",
                    [site, layer, head],
                )
                np.testing.assert_allclose(ours, weights[layer, head], atol=1e-4)


def test_words_of_any_translation_are_those_of_the_tokenizer(page, tokenizer):
    rows = np.random.default_rng(4).integers(0, tokenizer.vocabulary_size, (200, 8)).tolist()
    rows += [[token % 6 for token in row] for row in rows]  # often the unknown token
    words = page.evaluate("(rows) => rows.map((row) => livePanel.backend.wordsOfTarget(row))", rows)
    assert words == [tokenizer.words_from_ids(row) for row in rows]


def test_a_head_is_switched_off_and_on_again(page):
    before = sentence(page)
    switch(page, 0, 1)
    changed = sentence(page, 1)
    assert changed["sourceText"] == before["sourceText"]
    assert changed["logProbabilities"] != before["logProbabilities"]
    assert sentence(page) == before
    totals = [f"{sum(one['logProbabilities']):.2f}".replace("-", "−") for one in (before, changed)]
    assert f"Log-probability {totals[0]} → {totals[1]}" in page.inner_text(".comparison")
    switch(page, 0, 1)
    assert page.locator(".comparison").count() == 0 and page.locator(".chip").count() == 0


def test_a_head_is_switched_off_by_a_key(page):
    """The focus stays on its picture, although all pictures are drawn anew."""
    picture = page.locator("button[aria-label='layer 0, head 2']").first
    picture.focus()
    picture.press("x")
    page.wait_for_selector(".comparison")
    assert page.locator(".chip").all_inner_texts() == ["cross-attention, layer 0, head 2: off ×"]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "layer 0, head 2"
    page.keyboard.press("x")
    page.wait_for_selector(".comparison", state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "layer 0, head 2"


def test_heads_of_self_attention_can_be_off_too(page):
    page.select_option("[name=site]", "encoder")
    switch(page, 0, 2)
    assert page.locator(".chip").all_inner_texts() == ["encoder self-attention, layer 0, head 2: off ×"]
    assert sentence(page, 1)["logProbabilities"] != sentence(page)["logProbabilities"]


def test_a_token_is_replaced_and_the_translation_goes_on(page, run):
    """As a search that is given the beginning does, and the alternatives are the likeliest tokens."""
    page.locator(".token").first.click()
    page.get_by_text("What else was likely").click()
    page.locator(".alternatives button:not([disabled])").nth(1).click()
    page.wait_for_selector(".comparison")
    prefix = page.evaluate("livePanel.case.edits[0].prefix")
    source = run.tokenizer.encode([PROBES[0]["source"]])
    ((expected,),) = run.translator.translate_ids(source, [prefix])
    assert page.evaluate("livePanel.case.changed[0].ids") == expected.ids
    alternatives = page.evaluate("livePanel.case.changed[0].alternatives")
    theirs = Alternatives(run.model, run.tokenizer).at_each_token(source[0], expected.ids)
    for ours, rows in zip(alternatives, theirs, strict=True):
        np.testing.assert_allclose([value for _, _, value in ours], [value for _, _, value in rows], atol=1e-3)


def test_nothing_changed_is_said(browser, run, tmp_path):
    """A head whose part of the output projection is zero adds nothing in the first place."""
    (kernel,) = [v for v in run.model.variables if v.path.endswith("decoder_0/cross_attention/output/kernel")]
    values = kernel.numpy()
    kernel.assign(np.concatenate([np.zeros_like(values[:4]), values[4:]]))
    try:
        write_model_page(run, tmp_path / "page.html")
    finally:
        kernel.assign(values)
    with open_page(browser, (tmp_path / "page.html").as_uri(), offline=True) as page:
        page.wait_for_selector("#extension[data-ready=true]", state="attached")
        switch(page, 0, 0)
        assert page.inner_text(".comparison") == "Nothing changed: the same translation, with the same probability."
        assert sentence(page, 1)["logProbabilities"] == sentence(page)["logProbabilities"]


def test_an_empty_line_is_no_sentence(page):
    for text in ("", "   ", "\n", "\u2581"):
        type_and_send(page, text)
        assert page.locator("#list .row").count() == 1
        assert re.search("Type a sentence|nothing to translate", page.inner_text("[data-part=status]")), repr(text)


def test_several_sentences_are_read_as_one_and_that_is_said(page):
    type_and_send(page, f"{PROBES[0]['source']}. {PROBES[1]['source']}.")
    assert page.locator("#list .row").count() == 2 and page.locator(".paragraph").count() == 0
    assert page.inner_text("[data-part=status]").endswith(
        "a page with the model inside cannot divide texts into sentences."
    )
    type_and_send(page, PROBES[0]["source"])
    assert page.inner_text("[data-part=status]") == ""


def test_hostile_text_is_text(page):
    for text in (HOSTILE, "x" * 5000, "le chat " * 600, "\x02\x01\ufeff\uffff", "\u0301" * 50, "😀" * 300):
        type_and_send(page, text)
        shown = sentence(page)
        assert shown["source"][-1] == "</s>"
        assert len(shown["source"]) <= 64
    assert page.evaluate("document.title") != "broken"
    assert page.locator("#list .row").count() == 7
    assert page.locator("main b").count() == 0


def test_half_a_character_is_harmless(page):
    page.evaluate("livePanel.ask('a\\ud83d b')")
    assert sentence(page)["sourceText"] == "a\ufffd b"


@pytest.mark.parametrize("share", [0.001, 0.3, 0.6, 0.999])
def test_a_damaged_page_says_so(browser, path, tmp_path, share):
    text = path.read_text(encoding="utf-8")
    block = re.search(r'id="model">([^<]+)<', text)
    place = block.start(1) + int(share * len(block[1]))
    other = "A" if text[place] != "A" else "B"
    damaged = tmp_path / "damaged.html"
    damaged.write_text(text[:place] + other + text[place + 1 :], encoding="utf-8")
    with open_page(browser, damaged.as_uri(), offline=True) as page:
        page.wait_for_selector("#extension [role=alert]")
        assert "This page cannot translate: the file is damaged" in page.inner_text("#extension")
        assert page.locator("textarea").count() == 0


def test_a_page_that_was_cut_says_so(browser, path, tmp_path):
    """Its scripts are missing: what stays is the line that says what that means."""
    text = path.read_text(encoding="utf-8")
    context = browser.new_context(offline=True)
    cut = tmp_path / "cut.html"
    cut.write_text(text[: text.index('<script type="text/plain" id="model">') + 5000], encoding="utf-8")
    page = context.new_page()
    page.goto(cut.as_uri())
    assert "If this line stays, the file is damaged" in page.inner_text("#notice")
    context.close()


def test_it_replaces_the_file_that_is_named_but_no_file_of_the_run(run, path, tmp_path):
    first = path.read_bytes()
    other = tmp_path / "other.html"
    other.write_text("mine")
    write_model_page(run, other)
    assert other.read_bytes() == first
    read = run.directory.config
    read.parent.mkdir(exist_ok=True)
    read.write_text("settings")
    (tmp_path / "link.html").symlink_to(read)
    before = read.read_bytes()
    for file in (read, tmp_path / "link.html"):
        with pytest.raises(InputError, match=r"--page .*: the command reads this file; choose another name"):
            write_model_page(run, file)
    assert read.read_bytes() == before


def test_it_asks_nobody_for_anything(path):
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    visible = re.sub(r'id="model">[^<]+<', "", text)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", visible))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert base64.b64decode(re.search(r'id="model">([^<]+)<', text)[1])[:2] == b"\x1f\x8b"


READ = """() => {
  const words = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const tokens = ".tokens, .word-title h2, .keys th[scope=row], .alone, .alternatives button, option:not([value=''])";
  const others = `script, style, textarea, .marks, ${tokens}`;
  const viewers = "header, #controls, #texts, nav, .foot, .value, .picture, .aside > table, .heads span";
  const own = (element) => element && !element.closest(`${others}, ${viewers}`);
  while (walk.nextNode()) if (own(walk.currentNode.parentElement)) words.push(walk.currentNode.textContent.trim());
  for (const element of document.querySelectorAll("#extension *, .word *, .side :not(.heads, .heads *)")) {
    const labels = ["title", "aria-label", "placeholder"].map((name) => element.getAttribute(name) ?? "");
    if (!element.closest(viewers)) words.push(...labels);
  }
  return words.filter((text) => /\\p{L}{3}/u.test(text));
}"""
"""The texts and labels of the panel, without tokens; the viewer's own are tested with the viewer."""
SAME = {"Logit", "original", "softmax", "position"}
"""Words that are the same in two languages."""


def walk_through(browser, path, language):
    """Yields the name of each state of the page in a language, with the page: the word's parts and the tour."""
    address = f"{path.as_uri()}?lang={language}"
    with open_page(browser, address, offline=True) as page:
        page.wait_for_selector("#extension[data-ready=true]", state="attached")
        page.evaluate("() => { livePanel.tour.milliseconds = 1e9; }")
        yield "form", page
        page.locator("[data-part=more]").click()
        yield "more", page
        page.locator("[data-part=more]").click()
        page.locator(".run:not(.absent) .heads button[data-focus$=' 0 1']").first.click()
        page.locator(".token").nth(1).click()
        page.wait_for_selector(".vectors .keys")
        for summary in page.locator("#runs summary").all():
            summary.click()
        page.locator(".strip").first.focus()
        yield "word", page
        type_and_send(page, "")
        yield "nothing", page
        page.click("[data-part=start-tour]")
        page.wait_for_selector(".tour h2")
        count = page.evaluate("livePanel.tour.steps.length")
        for step in range(count):
            page.wait_for_selector("[data-part=form]:not([aria-busy])")
            page.evaluate("livePanel.turn")
            yield f"tour {step}", page
            if step + 1 < count:
                page.locator(".tour .steps button").nth(1).click()


@pytest.mark.minutes
def test_nothing_is_left_in_english(browser, path):
    """Whatever can be read is other in each language."""
    english = {text for _, page in walk_through(browser, path, "en") for text in page.evaluate(READ)}
    assert len(english) > 60
    for language in ("fr", "de"):
        states = 0
        for name, page in walk_through(browser, path, language):
            states += 1
            left = {text for text in page.evaluate(READ) if text in english} - SAME
            assert not left, (language, name)
        assert states > 6


@pytest.mark.minutes
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (360, "light")])
def test_the_tour_has_nothing_that_axe_finds(browser, path, width, scheme):
    with open_page(browser, path.as_uri(), viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        page.wait_for_selector("#extension[data-ready=true]", state="attached")
        page.focus("[data-part=start-tour]")
        page.keyboard.press("Enter")
        page.wait_for_selector(".tour h2")
        count = page.evaluate("livePanel.tour.steps.length")
        for step in range(count):
            page.wait_for_selector("[data-part=form]:not([aria-busy])")
            page.evaluate("livePanel.turn")
            assert find_violations(page) == [], step
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if step + 1 < count:  # by the keyboard alone: from the heading, which has the focus, to the second button
                page.evaluate("document.querySelector('.tour h2').focus()")
                for key in ["Tab"] * (2 if step else 1) + ["Enter"]:
                    page.keyboard.press(key)
                assert page.evaluate("livePanel.tour.step") == step + 1
