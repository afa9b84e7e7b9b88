"""LibreTranslate's interface: who is answered, what is refused in which words, and that a real client works."""

import json
import logging
import re
import shlex
import threading
import time
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from qkv.commands.live import LEAST_KEY_CHARACTERS, make_parser
from qkv.errors import InputError
from qkv.live.access import AccessCheck
from qkv.live.application import MOST_BYTES
from qkv.live.batching import MOST_TOGETHER, MOST_WAITING
from qkv.live.direction import MOST_ALTERNATIVES, DividedText
from qkv.live.server import LiveServer, ServedPage
from qkv.live.service import MOST_CHARACTERS, MOST_SECONDS, MOST_TEXTS, NOT_ANSWERED, TranslationService
from tests.support import ROOT
from tests.support.processes import PATIENCE_SECONDS

KEY = "a key that is long enough"
HOST = {"Host": "localhost:8000"}
ALL = {"q": "a b. c", "source": "en", "target": "fr"}


class StubDirection:
    """Translates each sentence, which a point ends, to capitals; its other translations have numbers."""

    def __init__(self, source="en", target="fr"):
        self.source, self.target = source, target
        self.gate = threading.Event()
        self.gate.set()
        self.asked = []
        self.error = None

    def prepare(self):
        pass

    def divide(self, text):
        if "\0" in text:
            raise InputError("q: NUL")
        sentences = [part for part in text.split(". ") if part]
        return DividedText(sentences, ["", *([". "] * (len(sentences) - 1)), ""] if sentences else [text])

    def translate_sentences(self, sentences):
        self.asked.append(sentences)
        assert self.gate.wait(PATIENCE_SECONDS)
        if self.error:
            raise self.error
        return [[f"{self.target}:{sentence.upper()}"] for sentence in sentences]

    def search_sentences(self, sentences):
        ranks = [("X", "X", "Y") if sentence == "x" else range(2 + ("c" in sentence)) for sentence in sentences]
        return [[f"{text.upper()}{rank}" for rank in of_text] for text, of_text in zip(sentences, ranks, strict=True)]

    def translate_html(self, texts):
        return [f"<{text}>" for text in texts]


class StubPage:
    """The page, which answers every address."""

    def __init__(self):
        self.turn = threading.Lock()

    def __call__(self, environ, start_response):
        return Response("the page")(environ, start_response)


@pytest.fixture
def stub():
    return StubDirection()


@pytest.fixture
def make_client(stub):
    made = []

    def make(directions=(stub,), key=None):
        made.append(TranslationService(StubPage(), directions, AccessCheck(["localhost"], ["proxy.example"]), key))
        return Client(made[-1])

    yield make
    for service in made:
        service.close()


@pytest.fixture
def client(make_client):
    return make_client()


def ask(client, path="/translate", headers=HOST, **fields):
    return client.post(path, headers=headers, json=fields)


def test_a_text_is_translated_by_json_and_by_a_form(client, stub):
    for answer in (ask(client, **ALL), client.post("/translate", headers=HOST, data=ALL)):
        assert answer.status_code == 200 and answer.json == {"translatedText": "fr:A B. fr:C"}
        assert answer.headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in answer.headers
    assert stub.asked == [["a b", "c"]] * 2


def test_what_is_asked_for_besides_is_answered_of_a_text_and_of_a_list(client):
    undetected = {"confidence": 0.0, "language": "en"}
    one = ask(client, **ALL | {"source": "auto", "alternatives": 2}).json
    assert one == {
        "translatedText": "A B0. C0",
        "alternatives": ["A B1. C1", "A B1. C2"],  # "A B" has two translations
        "detectedLanguage": undetected,
    }
    two = ask(client, **ALL | {"q": ["a b. c", "", "b"], "source": "auto", "alternatives": "1"}).json
    assert two == {
        "translatedText": ["A B0. C0", "", "B0"],
        "alternatives": [["A B1. C1"], [], ["B1"]],
        "detectedLanguage": [undetected] * 3,
    }
    assert ask(client, **ALL | {"q": "x", "alternatives": 3}).json["alternatives"] == ["XY"]  # each once
    assert ask(client, **ALL | {"q": []}).json == {"translatedText": []}
    assert ask(client, **ALL | {"q": ["x", "y"], "format": "html"}).json == {"translatedText": ["<x>", "<y>"]}
    assert ask(client, **ALL | {"format": None, "api_key": None, "unknown": 1}).json["translatedText"] == "fr:A B. fr:C"


def test_languages_are_those_of_the_runs(make_client):
    codes = [("en", "fr"), ("pt_BR", "en"), ("en", "xx")]
    directions = [StubDirection(*pair) for pair in codes]
    client = make_client(directions)
    assert client.get("/languages", headers=HOST).json == [
        {"code": "en", "name": "English", "targets": ["fr", "xx"]},
        {"code": "pt_BR", "name": "Portuguese (pt_BR)", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": []},
        {"code": "xx", "name": "xx", "targets": []},
    ]
    for source, target, text in (("en", "xx", "xx:A"), ("pt-br", "EN", "en:A"), ("auto", "fr", "fr:A")):
        assert ask(client, q="a", source=source, target=target).json["translatedText"] == text
    detected = ask(client, "/detect", q="a").json
    assert detected == [{"confidence": 0.0, "language": code} for code in ("en", "pt_BR")]


def test_a_language_is_not_guessed(make_client):
    client = make_client([StubDirection("de", "fr"), StubDirection("en", "fr")])
    refused = ask(client, **ALL | {"source": "auto"})
    assert refused.status_code == 400 and "not detected; expected one of de, en" in refused.json["error"]


def test_health_and_settings_are_told_to_all(make_client):
    for key in (None, KEY):
        client = make_client(key=key)
        assert client.get("/health", headers=HOST).json == {"status": "ok"}
        settings = client.get("/frontend/settings", headers=HOST).json
        assert settings["keyRequired"] == settings["apiKeys"] == (key is not None)
        assert settings["charLimit"] == MOST_CHARACTERS
        assert settings["language"]["source"] == {"code": "en", "name": "English"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"q": 1}, "q: expected a text or a list of texts"),
        ({"q": ["a", 1]}, "q: expected a text or a list of texts"),
        ({"q": {"a": "b"}}, "q: expected a text or a list of texts"),
        ({"q": "a" * (MOST_CHARACTERS + 1)}, "q: expected at most 20,000 characters, found 20,001"),
        ({"q": ["a" * MOST_CHARACTERS, "b"]}, "q: expected at most 20,000 characters, found 20,001"),
        ({"q": ["a"] * (MOST_TEXTS + 1)}, "q: expected at most 200 texts, found 201"),
        ({"q": "a\0"}, "q: NUL"),
        ({"source": "fr"}, "fr to fr is not supported: expected en to fr"),
        ({"source": ["en"]}, "source: expected the code of a language"),
        ({"target": "auto"}, "en to auto is not supported"),
        ({"format": "markdown"}, "format: expected text or html, found 'markdown'"),
        ({"format": ["text"]}, "format: expected text or html"),
        ({"alternatives": 4}, "alternatives: expected a number from 0 to 3, found 4"),
        ({"alternatives": "many"}, "alternatives: expected"),
        ({"alternatives": True}, "alternatives: expected"),
    ],
)
def test_wrong_fields_are_refused_in_words(client, stub, fields, message):
    answer = ask(client, **ALL | fields)
    assert answer.status_code == 400 and answer.json["error"].startswith(message) and len(answer.json["error"]) < 300
    assert stub.asked == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"[" * 100_000, b'{"q": "\xff"}', b'{"q": "\\ud800"}'])
def test_what_is_no_json_object_is_refused(client, stub, body):
    answer = client.post("/translate", headers=HOST, data=body, content_type="application/json")
    assert answer.status_code == 400 and answer.json["error"].startswith("expected a JSON object, found")
    assert stub.asked == []


def test_json_that_is_sent_as_a_form_is_refused_with_advice(client):
    answer = client.post("/translate", headers=HOST, data=json.dumps(ALL), content_type="text/plain")
    assert answer.status_code == 400 and "JSON with Content-Type: application/json" in answer.json["error"]


def test_too_large_a_request_is_refused(client):
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        assert (
            client.post("/translate", headers=HOST, data=b" " * (MOST_BYTES + 1), content_type=kind).status_code == 413
        )


def test_a_key_is_needed_where_there_is_one(make_client, stub):
    client = make_client(key=KEY)
    for path in ("/translate", "/detect"):
        for fields, status in (({}, 400), ({"api_key": ""}, 400), ({"api_key": "wrong"}, 403), ({"api_key": 1}, 403)):
            answer = ask(client, path, **ALL, **fields)
            assert answer.status_code == status and "API key" in answer.json["error"]
        assert ask(client, f"{path}?api_key={KEY}", **ALL).status_code == 400  # addresses are in logs of proxies
        assert client.post(f"{path}?api_key={KEY}", headers=HOST, data=ALL).status_code == 400
        assert ask(client, path, **ALL, api_key="é" * 30).status_code == 403
        assert stub.asked == []
        assert ask(client, path, **ALL, api_key=KEY).status_code == 200
        assert client.post(path, headers=HOST, data=ALL | {"api_key": KEY}).status_code == 200
        stub.asked.clear()
    assert client.get("/languages", headers=HOST).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": ""}, HOST | {"Origin": "http://evil.example"}, HOST | {"Origin": "null"}],
)
def test_other_sites_are_refused_with_the_key_too(make_client, stub, headers):
    client = make_client(key=KEY)
    for path in ("/languages", "/health", "/frontend/settings"):
        assert client.get(path, headers=headers).status_code == 403
    assert ask(client, headers=headers, **ALL, api_key=KEY).status_code == 403
    assert client.options("/translate", headers=headers).status_code == 403
    assert stub.asked == []
    for allowed in ({"Host": "proxy.example"}, HOST | {"Origin": "http://localhost:8000"}):
        assert ask(client, headers=allowed, **ALL, api_key=KEY).status_code == 200


def test_other_addresses_are_the_pages_or_are_not_answered(client):
    for path in ("/", "/answer", "/translate/x"):
        assert client.get(path, headers=HOST).text == "the page"
    for path in NOT_ANSWERED:
        answer = client.post(path, headers=HOST)
        assert answer.status_code == 404 and path in answer.json["error"]
    assert client.get("/translate", headers=HOST).status_code == 405


def test_an_error_is_told_and_a_surprise_is_neither_shown_nor_logged_with_its_text(client, stub, caplog):
    stub.error = InputError("the model gives scores that are not numbers")
    assert ask(client, **ALL).json == {"error": "the model gives scores that are not numbers"}
    stub.error = KeyError("a b")
    with caplog.at_level(logging.DEBUG):
        answer = ask(client, **ALL)
    assert answer.status_code == 500 and "its log shows the error" in answer.json["error"]
    assert "KeyError" in caplog.text and "translate_sentences" in caplog.text and "a b" not in caplog.text


def test_who_comes_when_enough_are_waiting_is_told_so(client, stub, monkeypatch):
    stub.gate.clear()
    statuses = []
    threads = [
        threading.Thread(target=lambda: statuses.append(ask(client, **ALL).status_code), daemon=True)
        for _ in range(1 + MOST_WAITING)
    ]
    waiting = client.application._calls._waiting
    for number, thread in enumerate(threads):
        thread.start()
        while not stub.asked or len(waiting) < number:  # the first one is being translated
            time.sleep(0)
    answer = ask(client, **ALL)
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "1" and "ask again" in answer.json["error"]
    stub.gate.set()
    for thread in threads:
        thread.join()
    assert statuses == [200] * (1 + MOST_WAITING)
    stub.gate.clear()
    monkeypatch.setattr("qkv.live.service.MOST_SECONDS", 0.01)
    assert ask(client, **ALL).status_code == 429
    stub.gate.set()


def test_eight_clients_at_once_get_their_own_answers(client):
    wrong = []

    def ask_often(name):
        for i in range(20):
            texts = [f"{name} {i} {j}. second {j}. third {name}" for j in range(3)]
            expected = [". ".join(f"fr:{part.upper()}" for part in text.split(". ")) for text in texts]
            if ask(client, **ALL | {"q": texts}).json != {"translatedText": expected}:
                wrong.append(name)

    threads = [threading.Thread(target=ask_often, args=(f"client {i}",), daemon=True) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert wrong == []


@pytest.fixture
def address(stub):
    """The address of a server with a key."""
    service = TranslationService(StubPage(), [stub], AccessCheck(["127.0.0.1"]), KEY)
    server = LiveServer(service, "127.0.0.1", 0)
    with ServedPage(server, f"http://127.0.0.1:{server.port}", 900, service) as page:
        yield page.address


def test_the_client_that_was_written_for_libretranslate_works(address):
    libretranslatepy = pytest.importorskip("libretranslatepy")
    client = libretranslatepy.LibreTranslateAPI(address, KEY)
    assert client.translate("a é\nb. c", "en", "fr") == "fr:A É\nB. fr:C"
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["fr"]}
    assert client.detect("a") == [{"confidence": 0.0, "language": "en"}]
    with pytest.raises(HTTPError) as refused:
        libretranslatepy.LibreTranslateAPI(address, "another key").translate("a", "en", "fr")
    with refused.value as error:
        assert error.code == 403 and json.load(error) == {"error": "Invalid API key"}


def test_a_server_that_closes_finishes_the_answers_in_progress(stub, monkeypatch):
    service = TranslationService(StubPage(), [stub], AccessCheck(["127.0.0.1"]))
    stub.gate.clear()
    server = LiveServer(service, "127.0.0.1", 0)
    page = ServedPage(server, "", 900, service)
    answers = []
    body = json.dumps(ALL).encode()

    def ask_it():
        request = Request(f"http://127.0.0.1:{server.port}/translate", body, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            answers.append(json.load(answer))

    client = threading.Thread(target=ask_it, daemon=True)
    client.start()
    while not stub.asked:
        time.sleep(0)
    finishing = threading.Event()
    finish = server.finish
    monkeypatch.setattr(server, "finish", lambda: (finishing.set(), finish()))
    closing = threading.Thread(target=page.close, daemon=True)
    closing.start()
    assert finishing.wait(PATIENCE_SECONDS) and closing.is_alive()
    stub.gate.set()
    closing.join(PATIENCE_SECONDS)
    client.join(PATIENCE_SECONDS)
    assert answers == [{"translatedText": "fr:A B. fr:C"}] and not service._calls._thread.is_alive()


PAGE = (ROOT / "docs" / "use" / "service.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"```text\n(curl .*?)\n(\{.*?\})\n```", PAGE, re.DOTALL))
def test_what_the_page_sends_is_answered_in_the_form_that_it_shows(client, example):
    command, shown = example
    *words, address = shlex.split(command)[1:]
    assert address == "http://127.0.0.1:5000/translate"
    options = list(zip(words[::2], words[1::2], strict=True))
    headers = [value.split(": ") for name, value in options if name == "-H"]
    parts = [value for name, value in options if name == "-d"]
    parts += [urlencode([tuple(value.split("=", 1))]) for name, value in options if name == "--data-urlencode"]
    data = "&".join(parts)
    kind = dict(headers).get("Content-Type", "application/x-www-form-urlencoded")
    answer = client.post("/translate", headers=HOST, data=data, content_type=kind)
    keys = re.findall(r'"(\w+)": ', shown)
    assert answer.status_code == 200 and sorted(answer.json) == sorted(keys)
    assert isinstance(answer.json["translatedText"], list) == ('"translatedText": [' in shown)


def test_the_page_names_the_limits_and_a_unit_that_starts():
    for number in (MOST_TEXTS, MOST_CHARACTERS, MOST_SECONDS, MOST_TOGETHER, MOST_WAITING, LEAST_KEY_CHARACTERS):
        assert re.search(rf"(?<![\d,]){number:,}(?![\d,])", PAGE), number
    assert f"from 0 to {MOST_ALTERNATIVES}" in PAGE and f"a beam of at least {1 + MOST_ALTERNATIVES}" in PAGE
    (unit,) = re.findall(r"ExecStart=\S*qkv live (\S+) (.*)", PAGE)
    options = make_parser().parse_args(unit[1].split())
    assert options.api and options.allow_host == re.findall(r"server_name (.*);", PAGE)
    paths = re.findall(r"location ~ (\S+) ", PAGE)[0]
    answered = ("/translate", "/detect", "/languages", "/health", "/frontend/settings")
    assert [re.fullmatch(paths, path) is not None for path in (*answered, "/", "/answer")] == [True] * 5 + [False] * 2
