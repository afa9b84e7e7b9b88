"""The guided tour on runs of other languages: each step claims something, and each claim is true of the run.

English into Spanish is served; English into Japanese, without spaces and with the verb last, is a page with the model
inside. Claims are recomputed in Python: translations by the run, weights by its recorder, words by the page's tokens.
"""

import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from qkv.live.live_run import LiveRun
from qkv.live.model_page import write_model_page
from qkv.live.page import MOST_EXAMPLE_CHARACTERS, find_examples
from qkv.live.question import Question, RowQuestion
from qkv.live.server import serve
from qkv.run.trained_run import load_run
from tests.support import ROOT
from tests.support.grammars import japanese_pairs, spanish_pairs, write_grammar
from tests.support.journeys import run
from tests.support.minutes import by_hand
from tests.support.pages import open_page
from tests.support.viewer import read_words, wait_until

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

ALWAYS = ["row", "vectors", "turn", "costly", "free", "even"]
"""The steps that all runs must have; others depend on what training made of the heads."""


@pytest.fixture(scope="module", params=["demo", *(pytest.param(name, marks=by_hand) for name in ("es", "ja"))])
def language(request):
    return request.param


@pytest.fixture(scope="module")
def live(language, tmp_path_factory):
    """A run with weights that 16-bit floats hold, so that a page computes the same; or the trained demo."""
    if language == "demo":
        if not (ROOT / "runs/demo/manifest.json").is_file():
            pytest.skip("needs the trained demo")
        return LiveRun(load_run(ROOT / "runs/demo"), language)
    folder = tmp_path_factory.mktemp(language)
    pairs = spanish_pairs(900) if language == "es" else japanese_pairs(900)
    config = write_grammar(folder, language, pairs, vocabulary=110 if language == "es" else 130)
    run(folder, "train.py", "--config", str(config))
    trained = load_run(folder / "runs" / language)
    for variable in trained.model.trainable_variables:
        variable.assign(variable.numpy().astype("float16").astype("float32"))
    data = trained.config.data
    validation = {name: folder / f"validation.{suffix}" for name, suffix in (("source", "en"), ("target", language))}
    data = data.model_copy(update={"validation": data.validation.model_copy(update=validation)})
    return LiveRun(replace(trained, config=trained.config.model_copy(update={"data": data})), language)


@contextmanager
def open_tour(browser, live, folder, language="en"):
    """Opens the page of the run and begins the tour."""
    if live.name != "ja":
        with serve([live]) as page:
            yield from _open(browser, f"{page.address}&lang={language}")
    else:
        write_model_page(live.run, folder / "page.html")
        yield from _open(browser, f"{(folder / 'page.html').as_uri()}?lang={language}")


def _open(browser, address):
    with open_page(browser, address) as page:
        page.wait_for_selector("#extension[data-ready=true]", state="attached")
        page.evaluate("() => { livePanel.tour.milliseconds = 1e9; }")
        page.click("[data-part=start-tour]")
        wait_until(page, "document.querySelector('.tour h2')")
        yield page


def walk(page):
    """Yields the name, the data and the displayed text of each step, with the page at this step."""
    count = page.evaluate("livePanel.tour.steps.length")
    for step in range(count):
        page.wait_for_selector("[data-part=form]:not([aria-busy])")
        page.evaluate("livePanel.turn")
        facts = page.evaluate(
            "step => { const { name, text, layer, head, row, changes, values, site } = livePanel.tour.steps[step];"
            " return { name, text, layer, head, row, changes, values, site }; }",
            step,
        )
        assert page.inner_text(".tour h2").startswith(f"{step + 1} ")
        text = page.inner_text(".tour p")
        slots = re.findall(r"\{(\w+)", read_words()[f"live.tour.{facts['name']}.text"]["en"])
        missing = {name: facts["values"][name] for name in slots if str(facts["values"][name]) not in text}
        assert slots and not missing, (missing, text)
        yield facts, text
        if step + 1 < count:
            page.locator(".tour .steps button").nth(1).click()


def shown_words(page, facts):
    """The labels of rows and columns of cross-attention in the page, and the tokens of each."""
    return page.evaluate(
        "() => { const { sentence, units } = livePanel.case.original[0], run = { units };"
        " const groups = (tokens, words, side) => groupByWord(tokens, words, wordsOf(run, sentence, side));"
        " return [groups(sentence.target, sentence.targetWords, 'target'),"
        " groups(sentence.source, sentence.sourceWords, 'source')]; }"
    )


def word_weights(live, page, facts):
    """The weights of the step's head between words, from the run's recorder, with the labels of rows and columns."""
    answer = live.answer(Question(text=facts["text"]))
    weights = answer.record.attention["cross"][facts["layer"]]
    weights = weights.mean(0) if facts["head"] == "mean" else weights[facts["head"]]
    rows, columns = shown_words(page, facts)
    by_word = [[weights[np.ix_(r["places"], c["places"])].sum(1).mean() for c in columns] for r in rows]
    return np.array(by_word), [r["text"] for r in rows], [c["text"] for c in columns]


def translation(live, text, changes=()):
    question = Question.model_validate({"text": text, "changes": list(changes)})
    return live.answer(question).facts["sentence"]["hypothesis"]


def check_row(live, page, facts, values):
    weights, rows, columns = word_weights(live, page, facts)
    row = weights[facts["row"]]
    assert rows[facts["row"]] == values["target"] and columns[row.argmax()] == values["source"]
    assert f"{row.max():.2f}" == values["weight"] and row.max() >= 0.5
    assert page.locator(".matrix .rows .marked").all_text_contents() == [values["target"]]


def check_vectors(live, page, facts, values):
    _, rows, _ = word_weights(live, page, facts)
    assert rows[facts["row"]] == values["target"]
    token = shown_words(page, facts)[0][facts["row"]]["places"]
    ids = live.answer(Question(text=facts["text"])).facts["ids"]
    place = {"site": "cross", "layer": facts["layer"], "head": facts["head"], "query": token[0]}
    row = live.row(RowQuestion(text=facts["text"], target=ids, **place))
    top = int(np.argmax(row["products"]))
    assert len(token) == 1 and row["tokens"][top].lstrip("▁") == values["source"]
    assert row["words"][top] == live.run.tokenizer.of_target.pieces([ids[token[0]]])[0]
    assert row["products"][top] == pytest.approx(float(values["product"].replace("−", "-")), abs=0.02)
    assert row["weights"][top] == pytest.approx(float(values["weight"]), abs=0.01) and row["weights"][top] > 0
    page.wait_for_selector(".vectors .keys .top")
    assert page.inner_text(".keys .top .alone") == values["target"]


def check_turn(live, page, facts, values):
    weights, rows, columns = word_weights(live, page, facts)
    found = [
        (rows[row], rows[row + 1], columns[first], columns[second])
        for row, (first, second) in enumerate(zip(weights.argmax(1), weights.argmax(1)[1:], strict=False))
        if first > second and min(weights[row, first], weights[row + 1, second]) >= 0.5
    ]
    assert (values["first"], values["second"], values["firstSource"], values["secondSource"]) in found


def check_costly(live, page, facts, values):
    changed = changed_counts(live, page, "cross")
    assert changed[facts["layer"], facts["head"]] == values["changed"] == max(changed.values()) > 0
    check_change(live, page, facts, values)


def check_free(live, page, facts, values):
    at = facts["changes"][0]["site"]
    assert changed_counts(live, page, at)[facts["layer"], facts["head"]] == 0
    examples = page.evaluate("livePanel.backend.examples.slice(0, MOST_TRIED)")
    assert len(examples) == values["tried"] > 1


def changed_counts(live, page, at):
    """The number of examples whose translation changes without each head."""
    examples = page.evaluate("livePanel.backend.examples.slice(0, MOST_TRIED)")
    heads = list(np.ndindex(*live.changes.heads[at]))
    off = {head: [{"site": at, "layer": head[0], "head": head[1], "change": "zeroed"}] for head in heads}
    plain = [translation(live, text) for text in examples]
    return {
        head: sum(translation(live, text, off[head]) != before for text, before in zip(examples, plain, strict=True))
        for head in heads
    }


def check_change(live, page, facts, values):
    """The translations have what the step says they have, in the same place, and nothing else differs."""
    before, after = translation(live, facts["text"]), translation(live, facts["text"], facts["changes"])
    assert before != after
    starts = [i for i in range(len(before)) if before.startswith(values["before"], i)]
    empty = "(empty)"
    changed = after or empty
    assert any(before[:i] + values["after"] + before[i + len(values["before"]) :] == changed for i in starts) or (
        values["after"] == empty and not after
    )
    assert page.locator(".run:not(.absent)").count() == 2 and page.locator(".comparison").count() == 1


def check_explains(live, page, facts, values):
    check_change(live, page, facts, values)
    heads = [f"cross-attention, layer {layer}, head {head}" for layer, head in np.ndindex(*live.changes.heads["cross"])]
    layer, head = divmod(heads.index(values["same"]), live.changes.heads["cross"][1])
    shuffled = [{"site": "cross", "layer": layer, "head": head, "change": "permuted"}]
    assert translation(live, facts["text"], shuffled) == translation(live, facts["text"])


CHECKS = {
    "row": check_row,
    "vectors": check_vectors,
    "turn": check_turn,
    "costly": check_costly,
    "free": check_free,
    "even": check_change,
    "explains": check_explains,
}


def test_each_step_of_the_tour_claims_what_is_true_of_the_run(browser, live, tmp_path):
    with open_tour(browser, live, tmp_path) as page:
        names = []
        for facts, _ in walk(page):
            names.append(facts["name"])
            CHECKS[facts["name"]](live, page, facts, facts["values"])
        assert [name for name in names if name in ALWAYS] == ALWAYS
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        page.locator(".tour .steps button").nth(2).click()
        assert page.locator(".tour").is_hidden()
        assert page.evaluate("document.activeElement.dataset.part") == "start-tour"


def test_examples_are_short_sentences_of_the_run(live):
    examples = find_examples(live.run)
    assert len(examples) == len(set(examples)) == 12
    assert all(len(text) <= MOST_EXAMPLE_CHARACTERS for text in examples)
