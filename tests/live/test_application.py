"""The live page's server: who may ask, how much, how many at once, and that hostile requests do no harm."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from werkzeug.test import Client

from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.inspection.archive import AttentionArchive
from qkv.live.access import TOKEN_HEADER, AccessCheck
from qkv.live.application import MOST_BYTES, MOST_WAITING, LivePage
from qkv.live.live_run import Answer
from qkv.live.page import live_page
from qkv.live.question import LONGEST_QUESTION, LogitQuestion, Question, RowQuestion
from tests.support.processes import PATIENCE_SECONDS
from tests.support.viewer import make_record

TOKEN = "secret"
HEADERS = {TOKEN_HEADER: TOKEN, "Host": "localhost:8000"}


class StubRun:
    """Answers any question with the same record, once `gate` is open."""

    def __init__(self, folder):
        self.name = "stub"
        self.run = SimpleNamespace(directory=RunDirectory(folder))
        self.gate = threading.Event()
        self.gate.set()
        self.asked = []
        self.error = None

    def answer(self, question):
        self.asked.append(question)
        self.gate.wait(PATIENCE_SECONDS)
        if self.error:
            raise self.error
        return Answer(make_record(0, "a b", "c d"), {"text": question.text}, question)

    def divide(self, text):
        self.asked.append(text)
        return {"sentences": text.split(" / "), "spaces": [" / "]} if " / " in text else None

    def split(self, question):
        return self.explain(question)

    def row(self, question):
        return self.explain(question)

    def explain(self, question):
        self.asked.append(question)
        if self.error:
            raise self.error
        return {"keys": ["a"]}


@pytest.fixture
def stub(tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.live.application.archive_manifest", lambda run: {"run": "stub"})
    return StubRun(tmp_path)


@pytest.fixture
def client(stub):
    run = {"name": "stub", "sites": {"cross": [2, 3]}, "units": {}, "heads": {}}
    facts = {"runs": [run], "examples": ["</script>"]}
    access = AccessCheck(["localhost", "127.0.0.1"], ["proxy.example"], TOKEN)
    return Client(LivePage([stub], live_page("a & <title>", facts), access))


def ask(client, path="/answer", headers=HEADERS, **question):
    return client.post(path, headers=headers, json={"text": "a b", **question})


def test_the_page_and_its_answers_are_given_to_who_knows_the_token(client, stub):
    page = client.get("/?token=secret", headers={"Host": "127.0.0.1:1"})
    assert page.status_code == 200 and "a &amp; &lt;title&gt;" in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert page.headers["Referrer-Policy"] == "no-referrer" and page.headers["Cache-Control"] == "no-store"
    assert page.text.count("</script>") == 5  # words, data, weights, facts, scripts
    answer = ask(client, beam_size=3)
    assert answer.status_code == 200 and answer.json == {"answer": 1, "text": "a b"}
    assert stub.asked == [Question(text="a b", beam_size=3)]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {TOKEN_HEADER: "wrong"},
        {TOKEN_HEADER: "é"},
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:8000"},
        {"Host": "evil.example@localhost"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
    ],
)
def test_others_are_refused(client, stub, headers):
    given = {"Host": "localhost"} if headers == {} or TOKEN_HEADER in headers else dict(HEADERS)
    answer = ask(client, headers=given | headers)
    assert answer.status_code == 403 and "error" in answer.json
    assert client.get("/", headers={"Host": "localhost"} | headers).status_code == 403
    assert stub.asked == []


def test_a_request_from_the_page_itself_is_answered(client):
    for own in ({"Origin": "http://localhost:8000"}, {"Host": "LOCALHOST"}, {"Origin": "https://proxy.example"}):
        assert ask(client, headers=HEADERS | own).status_code == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "question: "),
        (b"{", "question: "),
        (b"[]", "question: "),
        (b'{"text": 1}', "text: "),
        (b'{"text": "a", "more": 1}', "more: "),
        (b'{"text": "a", "beam_size": 1000000}', "beam_size: "),
        (b'{"text": "a", "n_best": 2}', "question: n_best: "),
        (b'{"text": "a", "prefix": [-1]}', "prefix.0: "),
        (b'{"text": "a", "row": {"site": "cross", "layer": 0, "head": 0, "query": 0, "weights": [NaN]}}', ""),
        (
            b'{"text": "a", "row": {"site": "cross", "layer": 0, "head": 0, "query": 0, "weights": [1]}}',
            "question: row: ",
        ),
        (b'{"text": "a", "changes": [{"site": "cross", "layer": 0, "head": 0, "change": "x"}]}', "changes.0.change: "),
        (b'{"text": "' + b"a" * (LONGEST_QUESTION + 1) + b'"}', "text: "),
        (b'{"text": "\xff"}', "question: "),
        (b"[" * 100_000, "question: "),
    ],
)
def test_what_is_no_question_is_refused_in_words(client, stub, body, message):
    answer = client.post("/answer", headers=HEADERS, data=body, content_type="application/json")
    assert answer.status_code == 400 and answer.json["error"].startswith(message) and len(answer.json["error"]) < 500
    assert stub.asked == []


@pytest.mark.parametrize(
    ("address", "kind", "place"),
    [
        ("/row", RowQuestion, {"site": "cross", "layer": 0, "head": 0}),
        ("/explain", RowQuestion, {"site": "cross", "layer": 0, "head": 0}),
        ("/split", LogitQuestion, {}),
    ],
)
def test_scores_and_logits_are_explained_to_who_may_ask(client, stub, address, kind, place):
    asked = {"target": [5, 3], "query": 1, **place}
    answer = ask(client, address, **asked)
    assert answer.status_code == 200 and answer.json == {"keys": ["a"]}
    assert stub.asked == [kind(text="a b", **asked)]
    assert ask(client, address, headers={"Host": "localhost"}, **asked).status_code == 403
    for wrong in ({"query": -1}, {"head": "0"}, {"more": 1}, {"target": None}):
        refused = ask(client, address, **asked | wrong)
        assert refused.status_code == 400 and refused.json["error"].startswith(next(iter(wrong)))
    assert ask(client, address, **asked, run=1).status_code == 400
    stub.error = InputError("head: expected")
    assert ask(client, address, **asked).json == {"error": "head: expected"}


def test_a_text_is_divided_for_who_may_ask(client, stub):
    divided = ask(client, "/divide", text="a b / c")
    assert divided.status_code == 200 and divided.json == {"sentences": ["a b", "c"], "spaces": [" / "]}
    assert ask(client, "/divide").json is None and stub.asked == ["a b / c", "a b"]
    assert ask(client, "/divide", headers={"Host": "localhost"}).status_code == 403
    for wrong in ({"run": 1}, {"text": "a" * (LONGEST_QUESTION + 1)}, {"more": 1}):
        refused = ask(client, "/divide", **wrong)
        assert refused.status_code == 400 and refused.json["error"].startswith(next(iter(wrong)))


def test_other_requests_are_refused(client, stub):
    assert client.post("/answer", headers=HEADERS, data=b'{"text": "a"}', content_type="text/plain").status_code == 400
    large = client.post("/answer", headers=HEADERS, data=b" " * (MOST_BYTES + 1), content_type="application/json")
    assert large.status_code == 413
    for path in ("/../etc/passwd", "/save/../answer", "/page.py", "/%2e%2e/x"):
        assert client.get(f"{path}?token=secret", headers={"Host": "localhost"}).status_code == 404
    assert client.get("/answer?token=secret", headers={"Host": "localhost"}).status_code == 405
    assert ask(client, run=1).status_code == 400
    assert stub.asked == []


def test_an_error_of_a_run_is_told_and_a_surprise_is_not_shown(client, stub, caplog):
    stub.error = InputError("tokens: expected ids below 5")
    assert ask(client).json == {"error": "tokens: expected ids below 5"}
    stub.error = ZeroDivisionError("inner workings")
    answer = ask(client)
    assert answer.status_code == 500 and "inner" not in answer.text
    assert "inner workings" in caplog.text


def test_who_comes_when_enough_are_waiting_is_told_so(client, stub):
    stub.gate.clear()
    statuses = []

    def ask_and_note():
        statuses.append(ask(client).status_code)

    threads = [threading.Thread(target=ask_and_note, daemon=True) for _ in range(1 + MOST_WAITING)]
    for thread in threads:
        thread.start()
    while client.application._queue._value:  # until the queue is full
        time.sleep(0)
    answer = ask(client)
    stub.gate.set()
    for thread in threads:
        thread.join()
    assert answer.status_code == 503 and "busy" in answer.json["error"] and answer.headers["Retry-After"] == "1"
    assert statuses == [200] * (1 + MOST_WAITING)
    assert ask(client).status_code == 200


def test_answers_are_kept_as_an_archive(client, stub, tmp_path):
    numbers = [ask(client).json["answer"] for _ in range(2)]
    saved = client.post("/save", headers=HEADERS, json={"answers": numbers})
    assert saved.status_code == 200 and saved.json == {"folders": [str(tmp_path / "live" / "0001")]}
    archive = AttentionArchive(tmp_path / "live" / "0001")
    assert archive.ids == [0, 1] and archive.manifest["questions"][0]["text"] == "a b"
    np.testing.assert_allclose(archive[1].attention["cross"], make_record(0, "a b", "c d").attention["cross"])
    assert client.post("/save", headers=HEADERS, json={"answers": numbers[:1]}).json["folders"][0].endswith("0002")
    for wrong in ([], [99], ["../x"], list(range(500))):
        assert client.post("/save", headers=HEADERS, json={"answers": wrong}).status_code == 400
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live"]


@pytest.mark.parametrize("name", ["live", "live/.0001.unfinished", "live/0001", "live/.0001.qkv-lock"])
def test_answers_are_not_kept_through_a_link(client, stub, tmp_path, name):
    home = tmp_path / "home"
    home.mkdir()
    (home / "precious").write_text("mine")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(home / "precious" if name.endswith("lock") else home)
    answer = client.post("/save", headers=HEADERS, json={"answers": [ask(client).json["answer"]]})
    refused = name in ("live", "live/.0001.qkv-lock")
    assert answer.status_code == (400 if refused else 200)
    assert not refused or f"{name}: this is a link" in answer.get_data(as_text=True)
    assert [path.name for path in home.iterdir()] == ["precious"] and (home / "precious").read_text() == "mine"


def test_old_answers_are_dropped(client, stub, monkeypatch):
    size = ask(client) and Answer(make_record(0, "a b", "c d"), {}, Question(text="")).record_bytes
    monkeypatch.setattr("qkv.live.application.MOST_KEPT_BYTES", 3 * size)
    numbers = [ask(client).json["answer"] for _ in range(5)]
    assert client.post("/save", headers=HEADERS, json={"answers": numbers[:1]}).status_code == 400
    assert client.post("/save", headers=HEADERS, json={"answers": numbers[-3:]}).status_code == 200
