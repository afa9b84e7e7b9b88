"""The page that shows every sentence: what is in the file, and, in headless Chromium, what a person does with it."""

import base64
import gzip
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from pipeline.alignment.word_matrix import row_words, word_matrix
from pipeline.inspection.measures import MEASURES, measure_site
from pipeline.inspection.record import Record
from pipeline.inspection.sentences import SENTENCE_MEASURES, sentence_row
from pipeline.inspection.viewer.page import ViewerRun, viewer_page, write_viewer
from pipeline.text.pharaoh import GoldAlignment
from tests.patience import PATIENCE_SECONDS

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


@pytest.fixture(scope="module")
def page():
    return viewer_page("a & <title>", [ViewerRun("one", GOLD, SCORES).add_all(RECORDS)], layer=1, head=2)


def embedded(page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    planes = np.frombuffer(gzip.decompress(base64.b64decode(re.search(r'id="weights">(.*?)<', page)[1])), "uint8")
    high, low = np.split(planes.astype("uint16"), 2)
    return data, (high * 256 + low) / 65535


def test_every_weight_is_in_the_page_to_five_digits(page):
    data, weights = embedded(page)
    expected = np.concatenate([w.ravel() for record in RECORDS for w in record.attention.values()])
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert data["runs"][0]["sites"] == {"cross": [LAYERS, HEADS], "encoder": [1, HEADS]}
    assert [sentence["source"] for sentence in data["runs"][0]["sentences"]] == [r.source_tokens for r in RECORDS]


def test_text_cannot_end_the_element_that_holds_it(page):
    assert page.count("</script>") == 3 and page.count("<script") == 3  # data, weights, script
    assert embedded(page)[0]["runs"][0]["sentences"][1]["sourceText"] == HOSTILE
    assert "<title>a &amp; &lt;title></title>" in page


def test_the_page_loads_nothing_from_outside(page):
    outside = re.sub(r'id="(data|weights)">.*?</script>', "", page, flags=re.S)
    assert re.findall(r"https?://[^\"']+", outside) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert not re.search(r"<(link|img|iframe)|\ssrc=|@import|url\(|fetch\(|XMLHttpRequest", outside)


def test_gold_links_are_shown_over_forced_targets_only(page):
    sentences = embedded(page)[0]["runs"][0]["sentences"]
    assert sentences[0]["gold"] == [[0, 0, 1], [1, 2, 1], [3, 3, 0]]
    assert all(sentence["gold"] == [] for sentence in sentences[1:])


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


# In the browser: a script at the end of the page does what a person would, and writes down what it saw.

chromium = pytest.mark.skipif(
    not (shutil.which("chromium") or shutil.which("chromium-browser")), reason="needs Chromium, which .ci/run installs"
)

PROBE = """
<script>
addEventListener("error", (event) => { saw.errors.push(String(event.message)); });
const saw = { errors: [] };
const $ = (selector) => document.querySelector(selector);
const $$ = (selector) => [...document.querySelectorAll(selector)];
const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
const pick = (selector, value) => { $(selector).value = value; $(selector).dispatchEvent(new Event("change")); };
const type = (text) => { $("#search").value = text; $("#search").dispatchEvent(new Event("input")); };
const ids = () => $$("#list .row").map((row) => Number(row.dataset.id));
const numbers = ({ dataset }) => [Number(dataset.row), Number(dataset.column), Number(dataset.weight)];
const cells = () => $$(".run svg .cell").map(numbers);
async function look() {
  while (!document.documentElement.dataset.ready) await new Promise((done) => setTimeout(done, 20));
  STEPS
  saw.requests = performance.getEntriesByType("resource").length;
}
look().catch((error) => saw.errors.push(String(error))).finally(() => {
  const out = document.createElement("pre");
  out.id = "saw";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(saw))));
  document.body.append(out);
});
</script>
"""


def browse(page, steps, folder):
    """Opens the page, takes steps, and returns what they put into `saw`."""
    path = folder / "page.html"
    path.write_text(page.replace("</body>", PROBE.replace("STEPS", steps) + "</body>"), encoding="utf-8")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    profile = f"--user-data-dir={folder / 'profile'}"
    answer = subprocess.run(
        [browser, *options, profile, path.as_uri()], capture_output=True, timeout=PATIENCE_SECONDS, check=True
    )
    found = re.search(r'<pre id="saw">([\w+/=]*)</pre>', answer.stdout.decode())
    assert found, answer.stderr.decode()
    saw = json.loads(base64.b64decode(found[1]))
    assert saw["errors"] == []
    assert saw["requests"] == 0
    return saw


def shown_cells(matrix):
    return [
        [t, s, pytest.approx(float(weight), abs=2e-5)] for t, row in enumerate(matrix) for s, weight in enumerate(row)
    ]


@chromium
def test_matrices_are_those_of_the_archive_in_every_view(page, tmp_path):
    saw = browse(
        page,
        """
        saw.start = [$(".run h2").textContent, cells()];
        key("w"); saw.tokens = cells();
        key("s"); saw.input = [cells(), $$(".run svg text").map((text) => text.textContent)];
        key("s"); key("w"); key("e"); saw.without = [cells(), $(".run h2").textContent];
        key("e"); pick("[name=site]", "encoder"); key("w"); saw.encoder = [cells(), $(".run h2").textContent];
        pick("[name=site]", "cross"); $$(".heads button")[0].click(); saw.mean = cells();
        """,
        tmp_path,
    )
    record = RECORDS[0]
    weights = record.attention["cross"][1, 2]
    words = word_matrix(weights, record.source_words, row_words(record.target_words, "output"), 4, 4)
    heading, found = saw["start"]
    assert heading == "cross-attention, layer 1, head 2, output side"
    assert [cell for cell in found if cell[0] < 4 and cell[1] < 4] == shown_cells(words)
    assert len(found) == 25  # EOS is a word of its own
    assert saw["tokens"] == shown_cells(weights)
    assert saw["input"][0] == shown_cells(weights)
    assert saw["input"][1][: len(record.target_input_tokens)] == record.target_input_tokens
    assert saw["without"][0] == shown_cells(words / words.sum(-1, keepdims=True))
    assert "without EOS, rows renormalised" in saw["without"][1]
    assert saw["encoder"][1] == "encoder self-attention, layer 0, head 2, output side"
    assert saw["encoder"][0] == shown_cells(record.attention["encoder"][0, 2])
    assert saw["mean"] == shown_cells(record.attention["cross"][0].mean(axis=0))


@chromium
def test_the_list_is_sorted_searched_filtered_and_moved_through(page, tmp_path):
    saw = browse(
        page,
        """
        saw.all = ids();
        pick("#sort", "worst score first"); saw.worst = ids();
        pick("#sort", "longest source first"); saw.longest = ids();
        pick("#sort", "as in the file"); type("CAT"); saw.found = ids(); saw.count = $("#count").textContent;
        type(""); pick("#only", "cut short"); saw.short = ids();
        pick("#only", "all"); key("j"); saw.next = location.hash; key("k"); key("k"); saw.first = location.hash;
        $("#list .row[data-id='4']").click(); saw.clicked = [location.hash, $("#texts").textContent];
        key("h"); saw.head = $(".run h2").textContent; key("l"); key("l"); saw.last = $(".run h2").textContent;
        """,
        tmp_path,
    )
    assert saw["all"] == [0, 1, 2, 3, 4]
    assert saw["worst"] == [2, 4, 1, 3, 0]
    assert saw["longest"][0] == 3 and saw["longest"][-1] == 2
    assert (saw["found"], saw["count"]) == ([0], "1 of 5 sentences")
    assert saw["short"] == [4]
    assert (saw["next"], saw["first"]) == ("#1", "#0")
    assert saw["clicked"][0] == "#4" and "cut short" in saw["clicked"][1] and "le jus" in saw["clicked"][1]
    assert "layer 1, head 1" in saw["head"] and "layer 1, head 2" in saw["last"]


@chromium
def test_sentences_are_ordered_and_noted_by_the_measures_that_have_labels(page, tmp_path):
    data, _ = embedded(page)
    saw = browse(
        page,
        """
        saw.labels = $$("#sort option").map((option) => option.value);
        saw.orders = {};
        for (const { label } of viewer.data.orders) { pick("#sort", label); saw.orders[label] = ids(); }
        pick("#sort", "as in the file"); saw.note = $("#list .row .note").textContent;
        """,
        tmp_path,
    )
    rows = [sentence_row(record, measure_site(record)) for record in RECORDS]
    labels = MEASURES | SENTENCE_MEASURES
    for order in data["orders"]:
        measure, sign = order["measure"], order["sign"]
        assert order["label"] == (labels[measure].lowest_first if sign == 1 else labels[measure].highest_first)
        key = {row["id"]: sign * (0 if np.isnan(row[measure]) else round(row[measure], 4)) for row in rows}
        assert saw["orders"][order["label"]] == sorted(key, key=lambda id_, key=key: (key[id_], id_))
    assert saw["labels"][-len(data["orders"]) :] == [order["label"] for order in data["orders"]]
    assert f"entropy {rows[0]['entropy']:.2f}" in saw["note"]


@chromium
def test_pointing_at_a_cell_tells_its_words_and_weight_and_gold_is_drawn(page, tmp_path):
    saw = browse(
        page,
        """
        const cell = $(".run svg .cell[data-row='2'][data-column='1']");
        cell.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
        saw.told = $(".value").textContent;
        saw.gold = [$$(".run .gold").length, $$(".run .possible").length];
        key("g"); saw.hidden = $$(".run .gold").length; key("g");
        key("v"); saw.lines = [$$(".run svg line").length, $$(".run svg .cell").length];
        saw.table = $$(".run table tr").map((row) => row.textContent);
        """,
        tmp_path,
    )
    record = RECORDS[0]
    rows = row_words(record.target_words, "output")
    words = word_matrix(record.attention["cross"][1, 2], record.source_words, rows, 4, 4)
    assert saw["told"] == f"noir ← black: {words[2, 1]:.4f}"
    assert (saw["gold"], saw["hidden"]) == ([3, 1], 0)
    assert saw["lines"][0] > 3 and saw["lines"][1] == 0
    assert saw["table"][0] == "wordmost attended wordweight" and len(saw["table"]) == 6


@chromium
def test_markup_in_sentences_is_shown_as_text(page, tmp_path):
    saw = browse(
        page,
        """
        key("j"); saw.title = document.title; saw.texts = $$("#texts span").map((span) => span.textContent);
        saw.bold = $$("main b, nav b").length; saw.row = $("#list .row[data-id='1'] .text").textContent;
        key("j"); saw.empty = $("#list .row[data-id='2'] .text").textContent; saw.cells = cells().length;
        """,
        tmp_path,
    )
    assert saw["title"] == "a & <title>"
    assert saw["texts"][1] == saw["row"] == HOSTILE and saw["bold"] == 0
    assert saw["empty"] == "(empty)" and saw["cells"] == 1


@chromium
def test_two_runs_stand_side_by_side(tmp_path):
    other = [make_record(i, r.source, "un autre", heads=2, seed=9) for i, r in enumerate(RECORDS) if i != 1]
    page = viewer_page("two", [ViewerRun("one").add_all(RECORDS), ViewerRun("other").add_all(other)])
    saw = browse(
        page,
        """
        saw.names = $$(".run").map((run) => run.getAttribute("aria-label"));
        saw.second = $$(".run")[1].querySelectorAll(".cell").length;
        key("j"); saw.missing = $$(".run")[1].textContent;
        """,
        tmp_path,
    )
    assert saw["names"] == ["one", "other"]
    assert saw["second"] == 3 * 5
    assert "does not have this sentence" in saw["missing"]


CHINESE = replace(
    make_record(0, "the cat", "猫吃苹果"),
    target_input_tokens=["<s>", "▁", "猫", "吃", "苹果"],
    target_output_tokens=["▁", "猫", "吃", "苹果", "</s>"],
    target_words=[0, 0, 1, 3, None],
    token_log_probabilities=[-1.0] * 5,
    attention={"cross": weights_of(np.random.default_rng(1), 1, 1, 5, 3)},
    target_unit="characters",
)


@chromium
def test_words_without_spaces_are_spelt_by_tokens_and_the_page_says_so(tmp_path):
    gold = GoldAlignment(frozenset({(1, 2)}), frozenset({(1, 2)}))  # the first character of 苹果
    page = viewer_page("one", [ViewerRun("one", [gold]).add_all([CHINESE])])
    saw = browse(
        page,
        """
        saw.labels = $$(".run table td:first-child").map((cell) => cell.textContent);
        saw.units = $(".units").textContent;
        const [x, y] = ["x", "y"].map((name) => Number($(".run .gold").getAttribute(name)));
        const at = (cell, name) => Number(cell.getAttribute(name));
        const near = (cell) => Math.abs(at(cell, "x") - x) < 4 && Math.abs(at(cell, "y") - y) < 4;
        saw.gold = numbers($$(".cell").find(near));
        key("w"); saw.tokens = $$(".run table td:first-child").map((cell) => cell.textContent);
        saw.still = $$(".units").length;
        """,
        tmp_path,
    )
    assert saw["labels"] == ["猫", "吃", "苹果", "</s>"]
    assert saw["units"] == "Words of the target are its characters."
    assert saw["gold"][:2] == [2, 1]
    assert (saw["tokens"], saw["still"]) == (CHINESE.target_output_tokens, 0)


@chromium
def test_a_sentence_whose_probabilities_are_unknown_has_no_column_of_them(tmp_path):
    unknown = replace(make_record(1, "a dog", "un chien"), token_log_probabilities=[])
    saw = browse(
        viewer_page("one", [ViewerRun("one").add_all([make_record(0, "the cat", "le chat"), unknown])]),
        """
        const heads = () => $$(".run table th").map((cell) => cell.textContent);
        key("w"); saw.known = heads().includes("probability");
        key("j"); saw.unknown = heads().includes("probability"); saw.rows = $$(".run table tr").length;
        """,
        tmp_path,
    )
    assert (saw["known"], saw["unknown"]) == (True, False) and saw["rows"] > 1


HEBREW = make_record(0, "the cat eats .", "החתול אוכל.")


@chromium
def test_text_from_right_to_left_stands_beside_its_label_with_its_full_stop_on_the_left(tmp_path):
    saw = browse(
        viewer_page("one", [ViewerRun("one").add_all([HEBREW])]),
        """
        saw.directions = $$("#texts [dir], #list .text, .run td:not(.number)").map((one) => one.dir);
        const text = $$("#texts [dir]").at(-1), label = text.previousElementSibling;
        saw.gap = text.getBoundingClientRect().left - label.getBoundingClientRect().right;
        saw.own = getComputedStyle(text).direction;
        const left = (letter) => {
          const range = document.createRange();
          range.setStart(text.firstChild, letter);
          range.setEnd(text.firstChild, letter + 1);
          return range.getBoundingClientRect().left;
        };
        saw.stop = left(text.textContent.length - 1) - left(0);
        const word = $$(".run svg text").find((one) => one.textContent.includes("אוכל"));
        const place = (character) => word.getStartPositionOfChar(word.textContent.indexOf(character)).x;
        saw.inPicture = place(".") - place("א");
        """,
        tmp_path,
    )
    assert set(saw["directions"]) == {"auto"} and saw["own"] == "rtl"
    assert 0 <= saw["gap"] < 40
    assert saw["stop"] < 0 and saw["inPicture"] < 0


def test_the_page_is_written_whole_or_not_at_all(tmp_path, page):
    write_viewer(
        tmp_path / "viewer.html", "a & <title>", [ViewerRun("one", GOLD, SCORES).add_all(RECORDS)], layer=1, head=2
    )
    assert (tmp_path / "viewer.html").read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["viewer.html"]
