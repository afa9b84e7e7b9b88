"""The site that `make docs` builds: its links, what it loads, its search, its looks on a phone, its embedded page."""

import os
import re
import subprocess
from contextlib import contextmanager
from functools import cache, partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from lxml import html

from tests.support import ROOT
from tests.support.axe import find_violations

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

FIRST_PAGE_BYTES = 1_000_000
PHONE = {"width": 390, "height": 780}
SMALL_PHONE = {"width": 360, "height": 640}
MADE_BEFORE = [f"--assume-old=.venv/{stamp}" for stamp in ("runtime", "qkv", "tests")]

ATTENTION = "use/commands.html#how-do-i-get-the-attention"
REPETITION = ("use/commands.html#every-translation-is-the-same", "use/commands.html#a-translation-repeats")
QUESTIONS = {
    "padding mask": "use/layers.html#masks",
    "nan": "use/commands.html#the-loss-is-nan-training-has-diverged",
    "alignment error rate": "use/alignment.html#alignment-error-rates",
    "resume": "use/commands.html#how-do-i-resume-or-continue-training",
    "continue training": "use/training.html#stopping-and-continuing",
    "fine-tune": "use/better_models.html",
    "out of memory": ("use/gpu.html#memory", "use/commands.html#out-of-memory"),
    "visualize attention": "use/viewer.html",
    "attention weights in python": ("use/python.html", "use/commands.html#how-do-i-get-the-attention"),
    "opus-mt": "use/import.html",
    "ctranslate2": "use/export.html#ctranslate2",
    "length penalty": "use/evaluation.html#length-penalty-and-beam",
    "back-translation": "use/better_models.html#back-translation",
    "average checkpoints": "use/better_models.html",
    "multiple gpus": "use/gpu.html",
    "slurm": "use/machines.html#slurm",
    "early stopping": "use/training.html",
    "mixed precision": "use/gpu.html",
    "ensemble": "use/evaluation.html#ensembles",
    "tensorflow serving": "use/export.html",
    "colab": "use/first_hour.html",
    "register a custom score": "extend/plugins.html",
    "custom attention score": "extend/plugins.html",
    "huggingface marian": "use/opus.html",
    "why divide by sqrt d_k": "learn/attention.html",
    "SelfAttention": "extend/reference/layers.html#qkv.SelfAttention",
    "Run.translate()": "extend/reference/runs.html#qkv.Run.translate",
    "What command gives me the attention matrix of a sentence pair, and its picture?": ATTENTION,
    "attention matrix of a sentence pair": ATTENTION,
    "save attention matrix as image": ATTENTION,
    "BLEU is 3": "use/commands.html#bleu-is-0",
    "My BLEU is 3 with 20,856 sentence pairs. What can I do?": "use/commands.html#bleu-is-0",
    "train Marian model further": "use/import.html#training-an-imported-model-further",
    "I have an OPUS-MT model and more training data: how do I train it further?": ("use/opus.html", "use/import.html"),
    "How do I resume training from a saved checkpoint?": "use/commands.html#how-do-i-resume-or-continue-training",
    "continue after interruption": (
        "use/training.html#stopping-and-continuing",
        "use/keras.html#epochs-and-interruptions",
    ),
    "How is the padding mask made?": "use/layers.html#masks",
    "I want to translate with CTranslate2 what I trained here": "use/export.html#ctranslate2",
    "out of memory same effective batch size": ("use/gpu.html#memory", "use/commands.html#out-of-memory"),
    "OOM": ("use/gpu.html#memory", "use/commands.html#out-of-memory"),
    "gradient accumulation": ("use/gpu.html#memory", "use/commands.html#out-of-memory"),
    "The translation repeats the same word again and again": REPETITION,
    "repetition": REPETITION,
    "alignment file format": "use/better_models.html#guided-attention",
    "heads do not look like an alignment": ("use/commands.html#my-heads", "use/alignment.html"),
    "which head aligns": ("use/alignment.html", "use/commands.html#my-heads"),
    "qkv draw": "use/viewer.html",
    "html tags": "use/markup.html",
    "translate a web page": "use/markup.html",
    "placeholders": "use/markup.html#placeholders",
    "confidence": "use/confidence.html",
    "quality estimation": "use/confidence.html",
    "libretranslate": ("use/service.html", "use/export.html#argos-translate-and-libretranslate"),
    "argos": "use/export.html#argos-translate-and-libretranslate",
    "model card": "use/export.html#model-card",
    "align stdin": "use/alignment.html#pairs-as-they-come",
    "word links without eflomal": "use/alignment.html#links-without-a-run",
}
"""What newcomers ask, as in the trackers of OpenNMT, tensorflow/nmt, OPUS-MT, BertViz and Keras, and the page that
answers it; with an anchor, the section whose anchor begins so. Some questions have several right answers."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("built") / "site"
    # The tests may run under a make of their own, whose jobs are none of this one's.
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    made = subprocess.run(
        ["make", "docs", f"SITE={folder}", *MADE_BEFORE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stderr == ""
    return folder


@pytest.fixture(scope="module")
def address(site):
    """The address at which the site is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@contextmanager
def open_window(browser, **settings):
    """A window and the answers that it gets; the test fails if anything went wrong in it."""
    context = browser.new_context(**settings)
    page, errors, responses = context.new_page(), [], []
    page.on("console", lambda told: errors.append(f"{told.text} {told.location}") if told.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("response", lambda response: responses.append(response))  # Playwright marks what it calls
    try:
        yield page, responses
        assert errors == []
    finally:
        context.close()


def pages_of(site, pattern="*.html"):
    """The built pages by their address; those with a model inside have tests of their own."""
    paths = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob(pattern))}
    return {name: path for name, path in paths.items() if not name.startswith("demo/")}


@cache
def read_page(path):
    return html.fromstring(path.read_text(encoding="utf-8"))


# Links, and what is loaded


def test_every_link_and_anchor_leads_to_something(site):
    pages = pages_of(site)
    anchors = {name: set(read_page(path).xpath("//@id")) for name, path in pages.items()}
    dead = []
    for name, path in pages.items():
        if name == "404.html":  # its links begin at the root of the site
            continue
        for target in set(read_page(path).xpath("//@href | //@src | //@action | //@data | //@poster")):
            parts = urlsplit(urljoin(f"http://site/{name}", target))
            if parts.netloc != "site":
                continue
            file = unquote(parts.path).lstrip("/") or "index.html"
            anchor = unquote(parts.fragment)
            if not (site / file).is_file() or (anchor and file in anchors and anchor not in anchors[file]):
                dead.append(f"{name} links {target}")
    assert dead == []


LOADED = """
    //script/@src | //img/@src | //iframe/@src | //source/@src | //video/@src | //object/@data |
    //link[not(contains("canonical next prev search index author", @rel))]/@href
"""
IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(https?:)?//")
IN_SCRIPTS = re.compile(r"(?:fetch|import|importScripts|Worker|open|src\s*=)\s*\(?\s*[\"'`](https?:)?//")


def test_nothing_is_loaded_from_outside(site):
    outside = []
    for name, path in pages_of(site).items():
        page = read_page(path)
        outside += [f"{name} loads {target}" for target in page.xpath(LOADED) if urlsplit(target).netloc]
        if IN_STYLES.search(" ".join(page.xpath("//style/text() | //@style"))):
            outside.append(f"{name}: a style")
        if IN_SCRIPTS.search(" ".join(page.xpath("//script/text()"))):
            outside.append(f"{name}: a script")
    for pattern, told in (("*.css", IN_STYLES), ("*.js", IN_SCRIPTS)):
        files = pages_of(site, pattern)
        assert files
        outside += [name for name, path in files.items() if told.search(path.read_text(encoding="utf-8"))]
    assert outside == []


def test_each_page_has_a_title_a_language_and_a_description(site):
    for name, path in pages_of(site).items():
        page = read_page(path)
        assert page.get("lang") == "en", name
        assert re.fullmatch(r"qkv|\S.* - qkv", page.findtext("head/title").strip()), name
        if not name.startswith(("files/", "404", "search", "genindex", "py-modindex")):
            assert page.xpath("//meta[@name='description']/@content"), name


# The reference

SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)  # lxml ends it at the list of its arguments
LOST_TYPE = re.compile(r"\[\s*,|\[\s*\](?!, )|,\s*,|,\s*\]|:\s*[,)=]|→\s*(?:[|,]|$)|~")  # but `Callable[[], None]`


def test_signatures_of_the_reference_have_no_empty_types(site):
    pages = pages_of(site, "extend/reference/*.html")
    signatures = [found for path in pages.values() for found in SIGNATURE.findall(path.read_text(encoding="utf-8"))]
    shown = [unescape(re.sub(r"<[^>]+>", "", signature)).removesuffix("¶") for signature in signatures]
    assert len(shown) > 250
    assert [text for text in shown if LOST_TYPE.search(text)] == []


# In a browser


def test_the_first_page_is_small_and_fits_the_smallest_phone(browser, address):
    with open_window(browser, viewport=SMALL_PHONE) as (page, responses):
        page.goto(address, wait_until="networkidle")
        assert sum(len(response.body()) for response in responses) <= FIRST_PAGE_BYTES
        assert {urlsplit(response.url).netloc for response in responses} == {urlsplit(address).netloc}
        assert page.evaluate("document.documentElement.scrollWidth") == SMALL_PHONE["width"]
        assert page.locator("img").evaluate_all("images => images.every(image => image.naturalWidth > 0)")


def test_no_page_scrolls_sideways_on_a_phone_or_asks_another_host(browser, address, site):
    wide = []
    with open_window(browser, viewport=PHONE) as (page, responses):
        for name in pages_of(site):
            page.goto(address + name)
            if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
                wide.append(name)
        assert {urlsplit(response.url).netloc for response in responses} == {urlsplit(address).netloc}
    assert wide == []


@pytest.mark.parametrize("width", [1216, 1280, 1312, 1313])
def test_contents_of_a_page_are_beside_it_on_a_laptop(browser, address, width):
    with open_window(browser, viewport={"width": width, "height": 800}) as (page, _):
        page.goto(address + "gallery.html")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        column = page.locator(".toc-drawer").bounding_box()
        assert column["x"] + column["width"] <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "use/commands.html", "search.html?q=resume"])
def test_nothing_keeps_anybody_from_reading_a_page(browser, address, name, scheme):
    with open_window(browser, color_scheme=scheme) as (page, _):
        page.goto(address + name, wait_until="networkidle")
        assert find_violations(page) == []


def search(page, query):
    page.fill("#search-form input", query)
    page.wait_for_function("query => document.documentElement.dataset.results === query", arg=query)
    return page.locator("#search-results a").evaluate_all("links => links.map(link => link.getAttribute('href'))")


def answers(found, wanted):
    addresses = [wanted] if isinstance(wanted, str) else wanted
    return any(found.startswith(address) if "#" in address else found.split("#")[0] == address for address in addresses)


def test_the_search_finds_the_right_page_first(browser, address):
    with open_window(browser) as (page, _):
        page.goto(f"{address}search.html?q=nan")
        first = {query: (search(page, query) or ["nothing"])[0] for query in QUESTIONS}
    assert {query: found for query, found in first.items() if not answers(found, QUESTIONS[query])} == {}


def test_the_search_works_in_files_and_shows_where_the_words_are(browser, site):
    with open_window(browser, offline=True) as (page, _):
        page.goto(f"{(site / 'index.html').as_uri()}")
        page.locator(".sidebar-search").fill("ensembles <b>")
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-results mark")
        page.locator("#search-results a").first.click()
        page.wait_for_load_state("networkidle")
        assert page.url.endswith("#ensembles")
        page.go_back()
        assert search(page, "qwertzuiop") == []
        assert "Nothing was found" in page.inner_text("#search-status")


def test_a_sentence_is_translated_in_the_embedded_page(browser, address, site):
    (name, *_) = [name for name, path in pages_of(site).items() if read_page(path).xpath("//details[@class='demo']")]
    with open_window(browser) as (page, responses):
        page.goto(address + name, wait_until="networkidle")
        assert not any("/demo/" in response.url for response in responses)
        page.locator("details.demo > summary").first.click()
        frame = page.frame_locator("details.demo iframe").first
        frame.locator("[data-part=text]").fill("the cat sees the dog .")
        frame.locator("[data-part=text]").press("Enter")
        frame.locator("[data-part=form]:not([aria-busy])").wait_for()
        words = [text.strip() for text in frame.locator(".translation .token").all_inner_texts()]
        assert words[:2] == ["le", "chat"]
        assert frame.locator("svg .cell").count() > 0


def test_a_copied_command_is_the_command(browser, address):
    with open_window(browser, permissions=["clipboard-read", "clipboard-write"]) as (page, _):
        page.goto(address)
        page.locator("pre").first.hover()
        page.locator(".copybtn").first.click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text.startsWith('qkv translate demo'))")
