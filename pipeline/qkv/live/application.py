"""The live page as a web application. It answers one question at a time.

Requests and responses are JSON, except the page itself. For the requests see `live.question`:

- `GET /?token=...`: the page, as HTML.
- `POST /answer`: a `Question`; responds with a translation and its attention.
- `POST /divide`: a `Question`; responds with the sentences of its text, or `null` if no splitter is installed.
- `POST /row`: a `RowQuestion`; responds with the query, keys, values and weights of a row.
- `POST /explain`: a `RowQuestion`; responds with the parts of the scores of a row.
- `POST /split`: a `LogitQuestion`; responds with the parts of a logit.
- `POST /save`: a `SaveRequest`; saves answers as an attention archive in the run's folder.

An error responds with `{"error": message}`.
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

from werkzeug.exceptions import BadRequest, HTTPException, ServiceUnavailable, TooManyRequests
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from ..errors import InputError
from ..files.atomic import check_run_folder, new_folder
from ..files.run_directory import LIVE
from ..inspection.archive import ArchiveWriter
from ..inspection.viewer.page import content_policy
from ..run.manifest import archive_manifest
from .access import AccessCheck
from .live_run import Answer, LiveRun
from .page import SERVED
from .question import MOST_KEPT, LogitQuestion, Question, RowQuestion, SaveRequest, TextQuestion, read_request

log = logging.getLogger(__name__)
MOST_BYTES = 256 * 1024
"""The largest size of a request. It allows rows of weights longer than those of any model."""

MOST_WAITING = 16
"""The largest number of waiting questions, enough for a class of students: an answer takes about 0.1 s."""

MOST_KEPT_BYTES = 100_000_000
"""The largest size of the weights of all answers that can be saved."""

HEADERS = {
    # The page may be in a frame, because notebooks need that. Other sites cannot frame it without the token.
    "Content-Security-Policy": content_policy({**SERVED, "base-uri": "'none'", "form-action": "'none'"}),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class LivePage:
    """The live page as a WSGI application.

    Args:
        runs: the runs that answer, in the order of the page.
        page: the HTML of the page.
        access: the check that every request must pass.

    Attributes:
        turn: the lock that is held while a run computes.
    """

    def __init__(self, runs: Sequence[LiveRun], page: str, access: AccessCheck) -> None:
        self._runs = runs
        self._access = access
        self._queue = BoundedSemaphore(1 + MOST_WAITING)  # the question that is answered, and those that wait
        self.turn = Lock()
        self._answers: OrderedDict[int, tuple[LiveRun, Answer]] = OrderedDict()
        self._answer_bytes = 0
        self._answered = 0
        posts: dict[str, Callable[[Request], Response]] = {
            "/divide": partial(self._process, Question, lambda run, question: run.divide(question.text)),
            "/answer": partial(self._process, Question, self._answer),
            "/row": partial(self._process, RowQuestion, lambda run, question: run.row(question)),
            "/explain": partial(self._process, RowQuestion, lambda run, question: run.explain(question)),
            "/split": partial(self._process, LogitQuestion, lambda run, question: run.split(question)),
            "/save": self._save,
        }
        rules = [Rule(address, methods=["POST"], endpoint=endpoint) for address, endpoint in posts.items()]
        page_rule = Rule("/", methods=["GET"], endpoint=lambda request: Response(page, mimetype="text/html"))
        self._addresses = Map([page_rule, *rules])

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        request.max_content_length = MOST_BYTES
        return self._respond(request)(environ, start_response)

    def _respond(self, request: Request) -> Response:
        """Returns the response to a request; an error becomes a message and an HTTP status."""
        try:
            self._access.check(request)
            endpoint, _ = self._addresses.bind_to_environ(request.environ).match()
            response = endpoint(request)
        except InputError as error:
            response = json_response({"error": str(error)}, 400)
        except HTTPException as error:
            response = json_response({"error": error.description or ""}, error.code or 500)
        except (TimeoutError, ConnectionError):
            response = json_response({"error": "the question did not arrive in time"}, 408)
        except Exception:
            log.exception("a question could not be answered")
            response = json_response({"error": "the program failed; the terminal shows the error"}, 500)
        response.headers.extend(HEADERS)
        return response

    def _process(self, kind: type[TextQuestion], process: Callable[[LiveRun, Any], Any], request: Request) -> Response:
        """Reads a question and responds to it, after the questions that arrived before it.

        Args:
            kind: the class of the question.
            process: the function that takes the run and the question and returns the JSON value of the response.
            request: the HTTP request, whose body is the question.

        Raises:
            InputError: the body of the request is not a question of the class `kind`.
            HTTPException: the request is not JSON, there is no run of the question's index, or too many questions are
                waiting.
        """
        question = read_request(kind, _body(request))
        if question.run >= len(self._runs):
            raise BadRequest(f"run: expected a number from 0 to {len(self._runs) - 1}, found {question.run}")
        if not self._queue.acquire(blocking=False):
            raise ServiceUnavailable("busy: too many questions are waiting; ask again in a moment")
        try:
            with self.turn:
                return json_response(process(self._runs[question.run], question))
        finally:
            self._queue.release()

    def _answer(self, run: LiveRun, question: Question) -> dict[str, Any]:
        """Answers a question, and stores the answer so that `_save` can save it. Drops the oldest answers.

        Returns:
            The `facts` of the answer, and under `answer` its number, from 1.
        """
        answer = run.answer(question)
        self._answered += 1
        self._answers[self._answered] = run, answer
        self._answer_bytes += answer.record_bytes
        while len(self._answers) > MOST_KEPT or (self._answer_bytes > MOST_KEPT_BYTES and len(self._answers) > 1):
            _, (_, dropped) = self._answers.popitem(last=False)
            self._answer_bytes -= dropped.record_bytes
        return {"answer": self._answered, **answer.facts}

    def _save(self, request: Request) -> Response:
        """Saves the answers of a `SaveRequest`; responds with the paths of the archives, `{"folders": [...]}`."""
        numbers = read_request(SaveRequest, _body(request)).answers
        with self.turn:
            answers = [self._answers[number] for number in numbers if number in self._answers]
            if len(answers) < len(numbers):
                raise BadRequest("answers: the server has dropped one of these answers; ask again")
            folders = save_case(answers)
        return json_response({"folders": [str(folder) for folder in folders]})


def _body(request: Request) -> bytes:
    if request.mimetype != "application/json":
        raise BadRequest("expected Content-Type: application/json")
    return request.get_data(cache=False)


def json_response(value: Any, status: int = 200) -> Response:
    """Returns a response with a JSON value. If it says that the server is busy, it has the header `Retry-After`."""
    headers = {"Retry-After": "1"} if status in (ServiceUnavailable.code, TooManyRequests.code) else None
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text, status, headers, mimetype="application/json")


def save_case(answers: Sequence[tuple[LiveRun, Answer]]) -> list[Path]:
    """Saves answers as attention archives, one for each run, which `qkv view`, `draw` and `measure` read.

    Each archive gets the first free folder of `RUN/live/0001`, `RUN/live/0002` and so on.

    Args:
        answers: pairs of a run and one of its answers.

    Returns:
        The folders of the archives.

    Raises:
        InputError: a folder cannot be written, or belongs to another run than the packaged one.
    """
    paths = []
    for live in dict.fromkeys(live for live, _ in answers):
        answers_of_run = [answer for run, answer in answers if run is live]
        live.run.directory.check_results()
        parent = live.run.directory.results / LIVE
        check_run_folder(parent)
        free = (parent / f"{number:04d}" for number in itertools.count(1))
        paths.append(next(path for path in free if not os.path.lexists(path)))
        with new_folder(paths[-1], "saves a case here") as folder:
            manifest = archive_manifest(live.run) | {
                "questions": [answer.question.model_dump() for answer in answers_of_run]
            }
            with ArchiveWriter(folder, manifest=manifest) as writer:
                for number, answer in enumerate(answers_of_run):
                    writer.append(replace(answer.record, id=number))
    return paths
