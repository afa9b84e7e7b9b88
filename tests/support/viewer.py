"""Sentences for tests of the viewer's page, and the page in a browser."""

import base64
import csv
import gzip
import json
import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from qkv.inspection.record import Record
from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import ASSETS, viewer_page
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.pages import open_page

LAYERS, HEADS = 2, 3
HOSTILE = "</script><script>document.title='broken'</script> & <b>bold</b> \u202eرجل é 猫"


def weights_of(generator, layers, heads, rows, columns):
    scores = np.exp(3 * generator.normal(size=(layers, heads, rows, columns)))
    return (scores / scores.sum(-1, keepdims=True)).astype("float32")


def make_record(id_, source, hypothesis, mode="forced", heads=HEADS, seed=0):
    """A record of words in two pieces each where they are longer than three letters."""
    generator = np.random.default_rng((id_, seed))

    def pieces(text):
        tokens, words = [], []
        for number, word in enumerate(text.split(" ") if text else []):
            for piece in [f"▁{word[:3]}", word[3:]] if len(word) > 3 else [f"▁{word}"]:
                tokens.append(piece)
                words.append(number)
        return tokens, words

    (source_tokens, source_words), (target, target_words) = pieces(source), pieces(hypothesis)
    rows, columns = len(target) + 1, len(source_tokens) + 1
    return Record(
        id=id_,
        source=source,
        reference=hypothesis,
        hypothesis=hypothesis,
        source_tokens=[*source_tokens, "</s>"],
        target_input_tokens=["<s>", *target],
        target_output_tokens=[*target, "</s>"],
        source_words=[*source_words, None],
        target_words=[*target_words, None],
        token_log_probabilities=[-0.1 * (id_ + 1)] * rows,
        mode=mode,
        truncated=False,
        attention={
            "cross": weights_of(generator, LAYERS, heads, rows, columns),
            "encoder": weights_of(generator, 1, heads, columns, columns),
        },
    )


RECORDS = [
    make_record(0, "the black cat sleeps", "le chat noir dort"),
    make_record(1, HOSTILE, HOSTILE),
    replace(make_record(2, "", ""), mode="greedy"),
    make_record(3, "a much longer sentence than all the others are", "une phrase bien plus longue", mode="beam"),
    replace(make_record(4, "juice", "jus"), reference="le jus", truncated=True),
]
GOLD = [
    GoldAlignment(sure=frozenset({(0, 0), (1, 2)}), possible=frozenset({(0, 0), (1, 2), (3, 3)})),
    *[GoldAlignment(frozenset(), frozenset())] * 4,
]
SCORES = [80.0, 20.0, 0.0, 50.0, 10.0]

CHINESE = replace(
    make_record(0, "the cat", "猫吃苹果"),
    target_input_tokens=["<s>", "▁", "猫", "吃", "苹果"],
    target_output_tokens=["▁", "猫", "吃", "苹果", "</s>"],
    target_words=[0, 0, 1, 3, None],
    token_log_probabilities=[-1.0] * 5,
    attention={"cross": weights_of(np.random.default_rng(1), 1, 1, 5, 3)},
    target_unit="characters",
)

HEBREW = make_record(0, "the cat eats .", "החתול אוכל.")


TYPES = {"cross/1/2": {"type": "aligner", "share": 0.875}, "cross/0/0": {"type": "previous", "share": 0.6}}
FACTS = [
    "en → fr",
    ("viewer.fact.transformer", {"name": "Transformer", "encoder_layers": 2, "decoder_layers": 1, "heads": 4}),
    ("viewer.fact.millions", {"millions": 0.72}),
    ("viewer.fact.search.greedy", {}),
    ("viewer.fact.bleu", {"score": 41.3}),
    ("viewer.fact.aer", {"score": 3.58}),
]


def whole_page():
    """A page with nearly all that a page can show of one run."""
    record = RECORDS[0]
    unseen = np.zeros_like(record.attention["cross"])
    unseen[..., 0] = 1.0  # all other words are hardly attended to
    records = [
        *RECORDS,
        replace(make_record(5, "the cat", "le chat le chat"), reference="le chat noir", mode="beam"),
        replace(record, id=6, attention={**record.attention, "cross": unseen}),
        replace(
            CHINESE,
            id=7,
            attention={
                **CHINESE.attention,
                "cross": np.repeat(np.repeat(CHINESE.attention["cross"], LAYERS, 0), HEADS, 1),
                "encoder": np.full((1, HEADS, 3, 3), 1 / 3, "float32"),
            },
        ),
    ]
    run = ViewerRun("one", GOLD, SCORES, str.capitalize, facts=FACTS, sentences_in_set=1156, types=TYPES)
    return viewer_page("demo, test", [run.add_all(records)])


def pair_page():
    """A page of two runs side by side, of which the other one lacks a sentence."""
    other = [make_record(i, record.source, "un autre", seed=9) for i, record in enumerate(RECORDS) if i != 1]
    return viewer_page(
        "one + two, test", [ViewerRun("one", GOLD).add_all(RECORDS), ViewerRun("two", facts=FACTS).add_all(other)]
    )


def stages_page():
    """A page of three stages of a training."""
    stages = [
        ViewerRun(("viewer.stage", {"update": update}), facts=FACTS[:1]).add_all(
            [make_record(0, "the cat", "le chat", seed=update)]
        )
        for update in (0, 900, 1100)
    ]
    return viewer_page("demo", stages, stages=True)


STATES = {
    whole_page: [
        {},
        {"view": "lines", "pin": "c1"},
        {"view": "heads"},
        {"view": "grid"},
        {"pin": "r2", "head": "mean", "hideEos": True},
        {"words": False, "side": "input", "query": "le"},
        {"id": 2, "only": "truncated"},
        {"id": 4, "site": "encoder"},
        {"id": 5, "help": True},
        {"id": 6},
        {"id": 7},
    ],
    pair_page: [{}, {"id": 1, "view": "lines"}],
    stages_page: [{}, {"aside": True, "view": "lines"}],
}
"""The states in which pages show all they can, by the functions that make the pages; `help` opens Help."""


def show_state(page, state):
    """Brings a page into a state, whatever was shown before."""
    page.evaluate(
        """({ help = false, ...state }) => {
          globalThis.opened ??= { ...viewer.store.state };
          viewer.store.set({ ...opened, ...state });
          viewer.store.set({ pin: state.pin ?? null });
          document.getElementById("help").open = help;
        }""",
        state,
    )


def embedded(page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    planes = np.frombuffer(gzip.decompress(base64.b64decode(re.search(r'id="weights">(.*?)<', page)[1])), "uint8")
    high, low = np.split(planes.astype("uint16"), 2)
    return data, (high * 256 + low) / 65535


def read_words():
    """The words of the pages: key -> {language: words}."""
    with (ASSETS / "words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [row.pop("key") for row in rows]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows, strict=True))


def in_english(words):
    """What the page says in English for `Words` of `qkv.inspection.viewer.data`, whose counts are above one."""
    if isinstance(words, str):
        return words
    key, values = words
    text = read_words()[key]["en"].split("|")[-1]
    return re.sub(
        r"\{(\w+)(?::(\d))?\}", lambda slot: f"{values[slot[1]]:.{slot[2]}f}" if slot[2] else str(values[slot[1]]), text
    )


@contextmanager
def open_viewer(browser, folder, html, fragment="", **settings):
    """Opens a page from a file, as one would who was sent it."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    with open_page(browser, path.as_uri() + fragment, **settings) as page:
        yield page


def read_cells(page, run=0):
    """The matrix of a run: [row, column, weight] of every cell."""
    return (
        page.locator(".run")
        .nth(run)
        .locator("svg .cell[data-row]")
        .evaluate_all(
            "cells => cells.map(({dataset: {row, column, weight}}) => [Number(row), Number(column), Number(weight)])"
        )
    )


def read_state(page, *keys):
    """Some of the state of the page."""
    return page.evaluate("keys => keys.map((key) => viewer.store.state[key])", list(keys))


def press(page, keys):
    """Presses keys one after the other, wherever the focus is."""
    for key in keys:
        page.keyboard.press(key)


WAIT = """new Promise((resolve, reject) => {
  let looks = 3000;
  const look = () => (CONDITION ? resolve() : looks-- ? setTimeout(look, 10) : reject(new Error("never: CONDITION")));
  look();
})"""


def wait_until(page, condition):
    """Waits until something is true in the page, whose policy forbids what Playwright's `wait_for_function` does."""
    page.evaluate(WAIT.replace('"never: CONDITION"', json.dumps(f"never: {condition}")).replace("CONDITION", condition))
