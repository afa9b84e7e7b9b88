"""The page that explains queries, keys and values, as a reader uses it: opened from a file, without a network."""

import re
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from qkv.commands import explain
from qkv.config import RunConfig
from qkv.errors import InputError
from qkv.inspection.experiments.row_steps import row_steps
from qkv.inspection.experiments.score_parts import in_float64
from qkv.live.explain_page import explain_page, order_examples, write_explain_page
from qkv.run.trained_run import load_run
from qkv.text.tokens.special_tokens import BOS, PAD
from tests.support import ROOT
from tests.support.axe import find_violations
from tests.support.changed_models import SITES, changed_model, forced
from tests.support.pages import open_page
from tests.support.random_runs import random_run

pytestmark = pytest.mark.slow

SENTENCES = ["the cat sees the dog", "le petit chien voit Éva", "the dog"]
HOSTILE = "</script><script>document.title='broken'</script> & <b>bold</b> \u202eرجل é 猫 \ud83d\ude00"
DEMO = ROOT / "runs" / "demo"


def make_run(tokenizer, folder, **settings):
    """A run with random weights, as 16-bit floats hold them, and example sentences."""
    run = random_run(tokenizer, folder, decoder_layers=2, **settings)
    for variable in run.model.trainable_variables:
        variable.assign(variable.numpy().astype("float16").astype("float32"))
    values = run.config.model_dump()
    values["inspection"]["probes"] = [{"source": text} for text in SENTENCES]
    values["decoding"] |= {"beam_size": 1}
    return replace(run, config=RunConfig.model_validate(values))


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    return make_run(tokenizer, tmp_path_factory.mktemp("run"), positions_on="queries_and_keys")


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "explained.html"
    write_explain_page(run, path)
    return path


@contextmanager
def opened(browser, path, fragment="", search="", **settings):
    with open_page(browser, path.as_uri() + search + fragment, offline=True, **settings) as page:
        yield page


@pytest.fixture
def page(browser, path):
    with opened(browser, path) as page:
        yield page


def settle(page):
    page.evaluate("explained.turn")


def state(page):
    """The state that the address holds, as one would send it."""
    page.evaluate("explained.writeNow()")
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def tab_to(page, selector, most=80):
    """Presses Tab until an element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def numbers(text):
    """The numbers in a text, as English writes them."""
    return [float(number.replace("−", "-").replace(",", "")) for number in re.findall(r"−?[\d,]*\d(?:\.\d+)?", text)]


def steps_of(page, run, model=None):
    """`row_steps` of the row that the page shows, with the arrays from which they start."""
    where = page.evaluate("explained.chosen")
    source, target = page.evaluate("[explained.answer.source.ids, explained.answer.target.ids]")
    layer = SITES[where["site"]].format(where["layer"])
    model = model or in_float64(run.model)
    token = target[min(where["row"], len(target) - 1)]
    steps = row_steps(model, (source, [BOS, *target[:-1]]), layer, where["head"], where["row"], token)
    return dict(steps.arrays) | dict(steps.values), where


def column(page, step, css):
    return [numbers(text)[-1] for text in page.locator(f"[data-step={step}] {css}").all_inner_texts()]


def check_shown_numbers(page, run, model):
    """Every number that the steps show is that of Python, to the digits that are shown."""
    expected, where = steps_of(page, run, model)
    inside = page.evaluate(
        "Object.fromEntries(['query', 'products', 'scores', 'weights', 'context', 'before', 'added', 'after']"
        ".map((name) => [name, [...explained.inside()[name]]]))"
    )
    for name, values in inside.items():
        np.testing.assert_allclose(values, expected[{"query": "q"}.get(name, name)], atol=1e-3, err_msg=name)
    lines = page.locator("[data-step=comparison] .lines > *").all_inner_texts()
    shown = np.array([numbers(line)[-3:] for line in lines])
    for place, name in enumerate(("products", "scores", "weights")):
        np.testing.assert_allclose(shown[:, place], expected[name], atol=0.0061, err_msg=name)
    key, coordinate = where["key"], numbers(page.inner_text("[data-step=query] .sum p"))[0]
    i = int(coordinate) - 1
    for part, letter in (("query", "q"), ("keys", "k"), ("values", "v")):
        of_key = expected[letter] if part == "query" else expected[letter][key]
        text = page.inner_text(f"[data-step={part}] .sum p")
        number, value, count, column_number, products, bias = numbers(text)
        assert number == column_number == i + 1 and count == expected["x"].size
        assert value == pytest.approx(of_key[i], abs=0.0061)
        assert bias == pytest.approx(expected[f"b_{letter}"][i], abs=0.0061)
        assert products + bias == pytest.approx(value, abs=0.016)
    terms = column(page, "context", ".lines > *")
    np.testing.assert_allclose(terms, expected["weights"] * expected["v"][:, i], atol=0.0061)
    assert numbers(page.inner_text("[data-step=context] p.sum"))[:2] == [
        i + 1,
        pytest.approx(expected["context"][i], abs=0.0061),
    ]
    number, *summands, total = numbers(page.inner_text("[data-step=sum] p.sum"))
    place = int(number) - 1
    rest = expected["other_heads"] + expected["b_o"]
    parts = [expected["before"][place], expected["added"][place], rest[place]]
    np.testing.assert_allclose(summands, parts, atol=0.0061)
    assert total == pytest.approx(sum(parts), abs=0.0061)
    product, root, score = numbers(page.locator("[data-step=comparison] .sum p").nth(1).inner_text())[-3:]
    assert (product, root, score) == (
        pytest.approx(expected["products"][key], abs=0.0061),
        pytest.approx(expected["q"].size ** 0.5, abs=0.0061),
        pytest.approx(expected["scores"][key], abs=0.0061),
    )
    weight = numbers(page.locator("[data-step=comparison] .sum p").nth(2).inner_text())[-1]
    assert weight == pytest.approx(expected["weights"][key], abs=0.00061)


def test_it_opens_with_a_sentence_its_translation_and_three_answers(page, run):
    assert page.inner_text("h1") == "What are queries, keys and values?"
    assert page.locator(".card").count() == 3
    first = order_examples(run)[0]
    assert page.input_value("[name=sentence]") == first
    source = run.tokenizer.encode([first])
    ((expected,),) = run.translator.translate_ids(source)
    assert page.evaluate("explained.answer.target.ids") == expected.ids
    assert page.locator(".formula").inner_text().replace(" ", "") == "softmax(QKᵀ/√dk+M)V"


@pytest.mark.minutes
def test_every_number_is_pythons_wherever_one_clicks(page, run):
    model = in_float64(run.model)
    check_shown_numbers(page, run, model)
    page.locator(".tokens [role=radio]").nth(1).click()
    check_shown_numbers(page, run, model)
    page.locator(".pictures [role=radio]").nth(2).click()
    assert page.evaluate("explained.chosen.head") == 2
    check_shown_numbers(page, run, model)
    page.select_option("[name=layer]", "0")
    check_shown_numbers(page, run, model)
    for site in ("encoder_self", "decoder_self"):
        page.select_option("[name=site]", site)
        assert page.evaluate("explained.chosen.site") == site
        check_shown_numbers(page, run, model)
        page.locator(".tokens [role=radio]").nth(2).click()
        page.locator("[data-step=keys] [role=radio]").nth(1).click()
        assert page.evaluate("explained.chosen.key") == 1
        check_shown_numbers(page, run, model)
    page.select_option("[name=example]", SENTENCES[1])
    settle(page)
    assert page.evaluate("explained.answer.source.text") == SENTENCES[1]
    check_shown_numbers(page, run, model)


def test_a_cell_of_the_matrix_chooses_its_row_and_its_key(page, run):
    page.locator("[data-focus='cell 1 2']").click()
    assert [page.evaluate(f"explained.chosen.{name}") for name in ("row", "key")] == [1, 2]
    assert page.locator(".weights tr.marked").get_attribute("class") == "marked"
    weights = page.evaluate("explained.weights('cross', 1, explained.chosen.head)")
    cells = page.locator(".weights td > button").evaluate_all("cells => cells.map((cell) => cell.title)")
    shown = [numbers(text)[-1] for text in cells]
    np.testing.assert_allclose(shown, np.ravel(weights), atol=0.0051)


@pytest.mark.minutes
def test_by_keyboard_alone(page, run):
    model = in_float64(run.model)
    tab_to(page, "[name=sentence]")
    page.keyboard.press("Control+A")
    page.keyboard.type(SENTENCES[1])
    page.keyboard.press("Enter")
    settle(page)
    assert page.evaluate("explained.answer.source.text") == SENTENCES[1]
    tab_to(page, ".tokens [role=radio]")
    row = page.evaluate("explained.chosen.row")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("explained.chosen.row") == row - 1
    page.keyboard.press("Home")
    assert page.evaluate("explained.chosen.row") == 0
    tab_to(page, ".pictures [role=radio]")
    page.keyboard.press("End")
    assert page.evaluate("explained.chosen.head") == 2
    tab_to(page, "[data-step=query] [role=slider]")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert state(page)["coordinate"] == "1"
    check_shown_numbers(page, run, model)
    page.keyboard.press("End")
    assert state(page)["coordinate"] == "3"
    tab_to(page, "[data-step=keys] [role=radio]")
    key = page.evaluate("explained.chosen.key")
    page.keyboard.press("ArrowDown" if key == 0 else "ArrowUp")
    assert page.evaluate("explained.chosen.key") == (1 if key == 0 else key - 1)
    check_shown_numbers(page, run, model)
    tab_to(page, "[data-step=sum] [role=slider]")
    page.keyboard.press("PageUp")
    check_shown_numbers(page, run, model)
    tab_to(page, "[data-focus^='cell']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("explained.chosen.row") == 1
    check_shown_numbers(page, run, model)


def test_the_vectors_tell_their_coordinates_to_a_screen_reader(page, run):
    slider = page.locator("[data-step=query] [role=slider]")
    slider.press("Home")
    expected, _ = steps_of(page, run)
    assert numbers(slider.get_attribute("aria-valuetext")) == [1, pytest.approx(expected["q"][0], abs=0.0051)]
    assert slider.get_attribute("aria-valuemax") == str(expected["q"].size)


FORCED = """() => explained.backend.translation(
  explained.answer.asked, { changes: readChanges(explained), prefix: explained.answer.target.ids },
).then(({ logProbabilities }) => logProbabilities)"""


def row_weights(page):
    return [numbers(text)[-1] for text in page.locator(".both > *").all_inner_texts()]


@pytest.mark.minutes
def test_changes_are_those_of_python(page, run):
    """Each by keyboard, and each undone: weights of the row, and the probability of the translation."""

    models = {}

    def check(names, factor):
        settle(page)
        source, target = page.evaluate("[explained.answer.source.ids, explained.answer.target.ids]")
        where = page.evaluate("explained.chosen")
        model = models.setdefault(tuple(names), models.get(tuple(names)) or changed_model(run, names))
        log_probabilities, weights = forced(model, source, target, factor)
        expected = weights[where["layer"]][where["head"], where["row"]]
        np.testing.assert_allclose(row_weights(page), expected, atol=0.0061)
        np.testing.assert_allclose(page.evaluate(FORCED)[: len(target)], log_probabilities, atol=1e-3)
        probability = page.evaluate("formatProbability", float(np.exp(log_probabilities.sum())))
        assert page.locator(".result > p.quiet").inner_text().endswith(f"the probability {probability}.")

    check([], None)
    tab_to(page, "[name=sharpness]", 200)
    page.keyboard.press("Home")
    check([], 0.0)
    length = len(page.evaluate("explained.answer.source.ids"))
    np.testing.assert_allclose(row_weights(page), 1 / length, atol=0.0051)
    assert page.get_attribute("[name=sharpness]", "aria-valuetext") == "uniform"
    page.keyboard.press("End")
    check([], np.inf)
    assert sorted(row_weights(page))[-2:] == [0, 1]
    page.keyboard.press("ArrowLeft")
    check([], 10.0)
    tab_to(page, ".changing button")
    page.keyboard.press("Enter")
    check([], None)
    assert page.locator(".changing button").is_disabled()
    for name, names, factor in (
        ("unscaled", [], 2.0),
        ("rawVectors", ["raw vectors"], None),
        ("withoutOutput", ["without W_O"], None),
    ):
        page.focus(f"[name={name}]")
        page.keyboard.press("Space")
        assert state(page)[name] == "yes"
        check(names, factor)
        page.keyboard.press("Space")
        assert name not in state(page)
    check([], None)


def test_a_changed_translation_is_the_changed_models(page, run):
    page.check("[name=rawVectors]")
    settle(page)
    changed = changed_model(run, ["raw vectors"])
    source = page.evaluate("explained.answer.source.ids")
    ask = "explained.backend.translation(explained.answer.asked, {changes: {rawVectors: true}})"
    ids = page.evaluate(f"{ask}.then(({{target}}) => target.ids)")
    decoded = changed.decode(np.array([[BOS, *ids[:-1]]]), changed.encode(np.array([source]))).logits.numpy()[0]
    decoded[:, [PAD, BOS]] = -np.inf
    assert decoded.argmax(-1).tolist() == ids
    pieces = [piece for piece in run.tokenizer.pieces(ids) if piece != "</s>"]
    shown = page.locator(".versions dd[lang]").nth(1).text_content()
    assert shown.replace(" ", "") == "".join(pieces).replace("▁", "")


def test_an_address_opened_again_shows_the_same(browser, path, page):
    page.select_option("[name=site]", "encoder_self")
    page.locator(".tokens [role=radio]").nth(1).click()
    page.locator("[data-step=query] [role=slider]").press("End")
    page.check("[name=withoutOutput]")
    page.click("nav a[data-section=changes]")
    settle(page)
    # The page scrolls there, and notices later where it is.
    page.wait_for_function("() => { explained.writeNow(); return location.hash.includes('section=changes'); }")
    expected, shown = state(page), page.inner_text("main")
    assert expected["section"] == "changes" and expected["site"] == "encoder_self" and expected["row"] == "1"
    fragment = page.url[page.url.index("#") :]
    with opened(browser, path, fragment) as again:
        settle(again)
        assert again.inner_text("main") == shown
        assert again.evaluate("Math.abs(document.getElementById('changes').getBoundingClientRect().top)") < 150
    page.evaluate("location.hash = '#row=0&sharpness=one-hot'")
    page.wait_for_selector("[name=sharpness][aria-valuetext='one word alone']")
    assert page.evaluate("explained.chosen.row") == 0 and not page.is_checked("[name=withoutOutput]")


@pytest.mark.parametrize(
    "fragment",
    [
        "#row=99&head=x&layer=-1&key=1e9&coordinate=1.5&place=NaN",
        "#site=__proto__&sharpness=-1&rawVectors=1",
        "#%",
        "#sentence=",
    ],
)
def test_a_bad_address_does_no_harm(browser, path, run, fragment):
    with opened(browser, path, fragment) as page:
        assert page.locator(".step").count() == 8
        assert page.evaluate("readChanges(explained)")["sharpness"] == 1
        where = page.evaluate("explained.chosen")
        assert where["site"] == "cross" and where["layer"] == 1


def test_a_text_without_words_leaves_the_page_as_it_is(page):
    shown = page.inner_text(".steps")
    for text in ("", "   ", "\u2581"):
        page.fill("[name=sentence]", text)
        page.press("[name=sentence]", "Enter")
        settle(page)
        assert page.inner_text("[data-part=status]") and page.inner_text(".steps") == shown
    page.fill("[name=sentence]", SENTENCES[2])
    page.press("[name=sentence]", "Enter")
    settle(page)
    assert page.text_content("[data-part=status]") == "" and page.inner_text(".steps") != shown


def test_messages_are_in_the_readers_language(browser, path, tmp_path):
    with opened(browser, path, search="?lang=fr") as page:
        page.fill("[name=sentence]", " ")
        page.press("[name=sentence]", "Enter")
        settle(page)
        assert page.inner_text("[data-part=status]") == "Il n’y a rien à traduire dans ce texte."
    text = path.read_text(encoding="utf-8")
    damaged = tmp_path / "damaged.html"
    damaged.write_text(re.sub(r'(id="model">.{300}).', r"\1!", text), encoding="utf-8")
    with opened(browser, damaged, search="?lang=de") as page:
        assert "die Datei ist beschädigt" in page.inner_text("main [role=alert]")


def test_hostile_text_is_text(page):
    for text in (HOSTILE, "le chat " * 60, "\u0301" * 50, "😀" * 100):
        page.fill("[name=sentence]", text)
        page.press("[name=sentence]", "Enter")
        settle(page)
        assert page.evaluate("explained.answer.source.pieces.at(-1)") == "</s>"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "broken" not in page.title() and page.locator("main b:not([class])").count() == 0


@pytest.mark.parametrize("language", ["en", "fr", "de"])
def test_it_fits_a_narrow_window_in_every_language(browser, path, language):
    with opened(browser, path, search=f"?lang={language}", viewport={"width": 360, "height": 740}) as page:
        assert page.evaluate("document.documentElement.lang") == language
        for site in ("cross", "encoder_self", "decoder_self"):
            page.select_option("[name=site]", site)
            assert page.evaluate("document.documentElement.scrollWidth") == 360


WORDS = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const left = ".token, option[lang], [name=example], code, .formula, .versions dd, [data-part=languages]";
    if (!parent.closest(`script, style, ${left}`)) {
      texts.push(walker.currentNode.textContent);
    }
  }
  for (const element of document.body.querySelectorAll("*")) {
    for (const name of ["title", "aria-label", "placeholder", "aria-valuetext"]) {
      const text = element.closest("table button, .tokens") ? null : element.getAttribute(name);
      if (text) texts.push(text);
    }
  }
  return texts.map((text) => text.trim()).filter((text) => /\\p{L}{2,}/u.test(text));
}"""
SAME = {
    *("attention", "Angle", "Questions", "Score", "softmax(Q Kᵀ / √d", "= v · tanh(", "tanh", "ij"),
    *(f"question {number}" for number in range(1, 13)),
}
"""Words that are spelt alike in two languages."""


def test_nothing_is_left_in_english(browser, path):
    """Each text of the page differs between languages, but for words that two languages share."""
    shown = {}
    for language in ("en", "fr", "de"):
        with opened(browser, path, "#sharpness=one-hot&unscaled=yes&rawVectors=yes", f"?lang={language}") as page:
            shown[language] = page.evaluate(WORDS)
    for language in ("fr", "de"):
        assert len(shown[language]) > 80
        assert set(shown[language]) & set(shown["en"]) <= set(SENTENCES) | SAME, language


@pytest.mark.minutes
def test_everybody_can_read_and_use_it(browser, path):
    """In light and dark, wide and narrow, with a change and with a message."""
    with opened(browser, path, "#sharpness=0.5&withoutOutput=yes") as page:
        for scheme in ("light", "dark"):
            for width in (1280, 390):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 844})
                assert find_violations(page) == []
        page.fill("[name=sentence]", "")
        page.press("[name=sentence]", "Enter")
        page.select_option("[name=site]", "decoder_self")
        assert find_violations(page) == []


@pytest.mark.parametrize(
    ("probability", "texts"),
    [
        (0.9996, ["99.96%", "99,96\xa0%", "99,96\xa0%"]),
        (0.996, ["99.6%", "99,6\xa0%", "99,6\xa0%"]),
        (0.61, ["61%", "61\xa0%", "61\xa0%"]),
        (0.0042, ["0.4%", "0,4\xa0%", "0,4\xa0%"]),
        (1 / 8637, ["1 in 8,600", "1 sur 8\xa0600", "1 zu 8.600"]),
        (1 / 7.6e8, ["1 in 760 million", "1 sur 760 millions", "1 zu 760 Millionen"]),
        (1e-30, ["almost 0", "presque 0", "fast 0"]),
    ],
)
def test_probabilities_are_written_as_people_write_them(page, probability, texts):
    for language, text in zip(("en", "fr", "de"), texts, strict=True):
        page.evaluate("(language) => { say.language = language; }", language)
        assert page.evaluate("formatProbability", probability).replace("\u202f", "\xa0") == text


def test_the_link_is_copied_or_shown(page):
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: {writeText: (text) => Promise.reject()}})")
    page.locator(".tokens [role=radio]").first.click()
    page.click("[data-part=copy]")
    page.wait_for_selector("[data-part=copied]:not(:empty)")
    assert "row=0" in page.inner_text("[data-part=copied]")


def test_a_damaged_page_says_so_and_a_cut_one_keeps_its_notice(browser, path, tmp_path):
    text = path.read_text(encoding="utf-8")
    start = re.search(r'id="model">([^<]+)<', text).start(1)
    damaged = tmp_path / "damaged.html"
    damaged.write_text(text[: start + 300] + ("A" if text[start + 300] != "A" else "B") + text[start + 301 :], "utf-8")
    with opened(browser, damaged) as page:
        assert "the file is damaged" in page.inner_text("main [role=alert]")
    cut = tmp_path / "cut.html"
    cut.write_text(text[: start + 300], encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(cut.as_uri())
    for words in ("If this line stays", "Si cette ligne reste", "Bleibt diese Zeile"):
        assert words in page.inner_text("#notice")
    context.close()


def test_it_asks_nobody_for_anything_and_replaces_no_file_of_the_run(run, path, tmp_path):
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    visible = re.sub(r'id="model">[^<]+<', "", text)
    assert set(re.findall(r"https?://[^\s\"'<]+", visible)) <= {"http://www.w3.org/2000/svg"}
    read = run.directory.config
    read.parent.mkdir(exist_ok=True)
    read.write_text("settings")
    with pytest.raises(InputError, match=r"--page .*: the command reads this file; choose another name"):
        write_explain_page(run, read)
    assert read.read_text() == "settings"


def test_rotary_positions_and_post_norm_are_shown_too(browser, tokenizer, tmp_path):
    run = make_run(tokenizer, tmp_path, positions="rotary", norm="post")
    path = tmp_path / "page.html"
    write_explain_page(run, path)
    with opened(browser, path, "#site=encoder_self") as page:
        assert "turn queries and keys" in page.inner_text("[data-step=query]")
        page.select_option("[name=site]", "cross")
        check_shown_numbers(page, run, in_float64(run.model))


def test_a_run_that_the_page_cannot_compute_is_refused_by_name(tokenizer, tmp_path):
    with pytest.raises(InputError, match=r"model\.positions: a page with the model inside does not support alibi"):
        explain_page(make_run(tokenizer, tmp_path, positions="alibi"))


def test_the_command_writes_the_page_or_says_why_not(unbroken, capsys, tmp_path):
    file = tmp_path / "page.html"
    assert explain.main([str(unbroken), "--page", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n" and "What are queries" in file.read_text(encoding="utf-8")
    assert explain.main([str(unbroken), "--page", str(file), "--change"]) == 2
    assert "--page writes a file instead" in capsys.readouterr().err


@pytest.mark.minutes
@pytest.mark.skipif(not (DEMO / "manifest.json").is_file(), reason="needs the trained demo")
def test_the_demos_page_is_small_and_opens_with_the_apple(browser, tmp_path):
    path = tmp_path / "demo.html"
    write_explain_page(load_run(DEMO), path)
    assert path.stat().st_size < 3_000_000
    with opened(browser, path) as page:
        assert page.input_value("[name=sentence]") == "the boy eats an apple ."
        assert page.locator("[data-step=next] li").first.inner_text().startswith("pomme")
