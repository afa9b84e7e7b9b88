"""The live page as a web application: six addresses, one question at a time.

- `GET /?token=...`: the page.
- `POST /answer`: a question as JSON (see `question`), answered as JSON.
- `POST /divide`: a question, answered with the sentences of its text, or `null` where nothing can divide it.
- `POST /explain`, `POST /split`: a question on the scores of a row or on a logit as JSON, answered as JSON.
- `POST /save`: the numbers of answers, kept as an attention archive in the run's folder.
"""

import itertools
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

from werkzeug.exceptions import BadRequest, HTTPException, ServiceUnavailable
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from ..errors import InputError
from ..files.atomic import check_run_folder, new_folder
from ..inspection.archive import ArchiveWriter
from ..inspection.viewer.page import content_policy
from ..run.manifest import archive_manifest
from .access import AccessCheck
from .live_run import Answer, LiveRun
from .page import SERVED
from .question import MOST_KEPT, LogitQuestion, Question, SaveRequest, ScoreQuestion, TextQuestion, read_request

log = logging.getLogger(__name__)
MOST_BYTES = 256 * 1024  # of a question: a row of weights of 10,000 tokens would be longer, and no model has as many
MOST_WAITING = 16  # a class; an answer takes a tenth of a second
MOST_KEPT_BYTES = 100_000_000  # of their weights

HEADERS = {
    # Notebooks show the page in a frame; others cannot, since they do not know the token.
    "Content-Security-Policy": content_policy({**SERVED, "base-uri": "'none'", "form-action": "'none'"}),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class LivePage:
    """The live page as a WSGI application: runs that answer, the page's HTML, and the access that says who may ask."""

    def __init__(self, runs: Sequence[LiveRun], page: str, access: AccessCheck) -> None:
        self._runs = runs
        self._access = access
        self._places = BoundedSemaphore(1 + MOST_WAITING)
        self._turn = Lock()
        self._kept: OrderedDict[int, tuple[LiveRun, Answer]] = OrderedDict()
        self._kept_bytes = 0
        self._answered = 0
        posts: dict[str, Callable[[Request], Response]] = {
            "/divide": partial(self._ask, Question, lambda run, question: run.divide(question.text)),
            "/answer": partial(self._ask, Question, self._keep),
            "/explain": partial(self._ask, ScoreQuestion, lambda run, question: run.explain(question)),
            "/split": partial(self._ask, LogitQuestion, lambda run, question: run.split(question)),
            "/save": self._save,
        }
        rules = [Rule(address, methods=["POST"], endpoint=endpoint) for address, endpoint in posts.items()]
        show = Rule("/", methods=["GET"], endpoint=lambda request: Response(page, mimetype="text/html"))
        self._addresses = Map([show, *rules])

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        request.max_content_length = MOST_BYTES
        return self._respond(request)(environ, start_response)

    def _respond(self, request: Request) -> Response:
        try:
            self._access.check(request)
            endpoint, _ = self._addresses.bind_to_environ(request.environ).match()
            response = endpoint(request)
        except InputError as error:
            response = _json({"error": str(error)}, 400)
        except HTTPException as error:
            response = _json({"error": error.description or ""}, error.code or 500)
        except (TimeoutError, ConnectionError):
            response = _json({"error": "the question did not arrive in time"}, 408)
        except Exception:
            log.exception("a question could not be answered")
            response = _json({"error": "something went wrong; the terminal says what"}, 500)
        response.headers.extend(HEADERS)
        return response

    def _ask(self, kind: type[TextQuestion], ask: Callable[[LiveRun, Any], Any], request: Request) -> Response:
        """Waits for the turn to ask a run, if not too many are waiting already."""
        question = read_request(kind, _body(request))
        if question.run >= len(self._runs):
            raise BadRequest(f"run: expected a number below {len(self._runs)}, found {question.run}")
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailable("busy: others are waiting already; ask again in a moment")
        try:
            with self._turn:
                return _json(ask(self._runs[question.run], question))
        finally:
            self._places.release()

    def _keep(self, run: LiveRun, question: Question) -> dict[str, Any]:
        """Answers a question; the answer is kept by its number, so that it can be saved."""
        answer = run.answer(question)
        self._answered += 1
        self._kept[self._answered] = run, answer
        self._kept_bytes += answer.record_bytes
        while len(self._kept) > MOST_KEPT or (self._kept_bytes > MOST_KEPT_BYTES and len(self._kept) > 1):
            _, (_, dropped) = self._kept.popitem(last=False)
            self._kept_bytes -= dropped.record_bytes
        return {"answer": self._answered, **answer.facts}

    def _save(self, request: Request) -> Response:
        wanted = read_request(SaveRequest, _body(request)).answers
        with self._turn:
            kept = [self._kept[number] for number in wanted if number in self._kept]
            if len(kept) < len(wanted):
                raise BadRequest("answers: at least one of them is no longer kept; ask again")
            folders = save_case(kept)
        return _json({"folders": [str(folder) for folder in folders]})


def _body(request: Request) -> bytes:
    if request.mimetype != "application/json":
        raise BadRequest("expected Content-Type: application/json")
    return request.get_data(cache=False)


def _json(value: Any, status: int = 200) -> Response:
    headers = {"Retry-After": "1"} if status == ServiceUnavailable.code else None
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text, status, headers, mimetype="application/json")


FOLDER = "live"  # in the run's


def save_case(answers: Sequence[tuple[LiveRun, Answer]]) -> list[Path]:
    """Writes answers as archives, one for each run: `RUN/live/0001`, `0002` and so on. `qkv view`, `draw` and
    `measure` read them.

    Returns:
        The folders.

    Raises:
        InputError: a folder cannot be written.
    """
    paths = []
    for live in dict.fromkeys(live for live, _ in answers):
        own = [answer for other, answer in answers if other is live]
        parent = live.run.directory.root / FOLDER
        check_run_folder(parent)
        free = (parent / f"{number:04d}" for number in itertools.count(1))
        paths.append(next(path for path in free if not os.path.lexists(path)))
        with new_folder(paths[-1], "saves a case here") as folder:
            manifest = archive_manifest(live.run) | {"questions": [answer.question.model_dump() for answer in own]}
            with ArchiveWriter(folder, manifest=manifest) as writer:
                for number, answer in enumerate(own):
                    writer.append(replace(answer.record, id=number))
    return paths
