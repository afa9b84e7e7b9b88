"""The interface of LibreTranslate (https://docs.libretranslate.com) over the runs of the page, for other programs.

Requests are JSON or the fields of a form, and responses are JSON:

- `POST /translate`: translates `q`, a text or a list of texts, from `source` to `target`.
- `POST /detect`: the source languages of the runs, of which none is detected.
- `GET /languages`: the source languages, each with its targets.
- `GET /health`: `{"status": "ok"}`.
- `GET /frontend/settings`: limits, and whether a key is needed.

An error responds with `{"error": message}`. All other addresses are those of the page.
"""

import hmac
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from werkzeug.exceptions import BadRequest, Forbidden, HTTPException, NotFound, TooManyRequests
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from ..errors import InputError
from ..files.json import parse_json
from ..text.lines.language_names import name_language
from .access import AccessCheck
from .application import HEADERS, MOST_BYTES, LivePage, json_response
from .batching import BatchedCalls, BusyError
from .direction import MOST_ALTERNATIVES, Direction

log = logging.getLogger(__name__)

MOST_CHARACTERS = 20_000
"""The largest number of characters of all texts of a request, some ten pages."""

MOST_TEXTS = 200
"""The largest number of texts of a request."""

MOST_SECONDS = 60
"""The time limit of a translation, with the time that it waits for others."""

FORMATS = ("text", "html")
"""The formats of texts."""

AUTO = "auto"
"""The source language of a client that does not know it."""

NOT_ANSWERED = ("/translate_file", "/download_file", "/suggest", "/spec")
"""Addresses of LibreTranslate that are not answered."""


@dataclass(frozen=True)
class TranslationRequest:
    """A request for translations.

    Args:
        texts: the texts.
        is_list: whether the client has sent a list of texts, so that it gets one.
        source: the code of the source language, or `AUTO`.
        target: the code of the target language.
        format: one of `FORMATS`.
        alternatives: the number of further translations of each text.
    """

    texts: list[str]
    is_list: bool
    source: str
    target: str
    format: str
    alternatives: int

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "TranslationRequest":
        """Makes the request from the fields of a client.

        Raises:
            BadRequest: a field is missing or wrong, or there is too much text.
        """
        q = _require(fields, "q")
        texts = q if isinstance(q, list) else [q]
        if not all(isinstance(text, str) for text in texts):
            raise BadRequest("q: expected a text or a list of texts, found something else")
        if len(texts) > MOST_TEXTS:
            raise BadRequest(f"q: expected at most {MOST_TEXTS} texts, found {len(texts):,}: send several requests")
        characters = sum(map(len, texts))
        if characters > MOST_CHARACTERS:
            raise BadRequest(
                f"q: expected at most {MOST_CHARACTERS:,} characters, found {characters:,}: send several requests"
            )
        text_format = fields.get("format", "text")
        if text_format not in FORMATS:
            raise BadRequest(f"format: expected {' or '.join(FORMATS)}, found {text_format!r:.60}")
        return cls(
            texts,
            isinstance(q, list),
            _read_code(fields, "source"),
            _read_code(fields, "target"),
            text_format,
            _read_alternatives(fields),
        )


class TranslationService:
    """The interface of LibreTranslate as a WSGI application, in front of the page.

    Each direction first translates a letter, to trace its graphs.

    A client needs no token. It needs the key, if there is one; and its `Host` and `Origin` are checked as for the page.

    Args:
        page: the page, which answers all other addresses.
        directions: the runs, of which no two have the same languages.
        access: the check of hosts and origins.
        key: the key that clients send as `api_key`; None if they need none.
    """

    def __init__(
        self, page: LivePage, directions: Sequence[Direction], access: AccessCheck, key: str | None = None
    ) -> None:
        self._page = page
        self._directions = directions
        self._access = access
        self._key = key
        self._calls = BatchedCalls(page.turn)
        for direction in directions:
            direction.prepare()
        answers: dict[tuple[str, str], Callable[[Request], Any]] = {
            ("POST", "/translate"): self._translate,
            ("POST", "/detect"): self._detect,
            ("GET", "/languages"): lambda request: self._list_languages(),
            ("GET", "/health"): lambda request: {"status": "ok"},
            ("GET", "/frontend/settings"): lambda request: self._settings(),
            **{("POST", address): _refuse for address in NOT_ANSWERED},
        }
        self._paths = {path for _, path in answers}
        self._addresses = Map(
            [Rule(path, methods=[method], endpoint=answers[method, path]) for method, path in answers]
        )

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        if request.path not in self._paths:
            return self._page(environ, start_response)
        request.max_content_length = MOST_BYTES
        return self._respond(request)(environ, start_response)

    def close(self) -> None:
        """Finishes the translations that clients wait for, and begins no more."""
        self._calls.close()

    def _respond(self, request: Request) -> Response:
        """Returns the response to a request; an error becomes a message and an HTTP status."""
        try:
            self._access.check_sender(request)
            endpoint, _ = self._addresses.bind_to_environ(request.environ).match()
            response = json_response(endpoint(request))
        except InputError as error:
            response = json_response({"error": str(error)}, 400)
        except BusyError:
            response = json_response({"error": "Slowdown: too many requests are waiting; ask again in a moment"}, 429)
        except HTTPException as error:
            response = json_response({"error": error.description or ""}, error.code or 500)
        except (TimeoutError, ConnectionError):
            response = json_response({"error": "the request did not arrive in time"}, 408)
        except Exception as error:
            # Not its message, which may quote the text of the client.
            place = "".join(traceback.format_tb(error.__traceback__))
            log.error("a request could not be answered: %s\n%s", type(error).__name__, place)
            response = json_response({"error": "the program failed; its log shows the error"}, 500)
        response.headers.extend(HEADERS)
        return response

    def _translate(self, request: Request) -> dict[str, Any]:
        """Answers `/translate`.

        Returns:
            `translatedText`, and if the client has asked for them `detectedLanguage` and `alternatives`. Each is a list
            with an element for each text if the client has sent a list.

        Raises:
            HTTPException: the key or a field is wrong, the time is over, or too many requests are waiting.
            InputError: a text has a NUL character or a lone surrogate.
        """
        asked = TranslationRequest.read(self._read_fields(request))
        direction = self._find_direction(asked)
        if asked.format == "html":
            translations = self._call(direction.translate_html, asked.texts)
            alternatives: list[list[str]] = [[] for _ in asked.texts]
        else:
            n_bests = self._translate_texts(direction, asked)
            translations = [n_best[0] for n_best in n_bests]
            alternatives = [n_best[1:] for n_best in n_bests]
        answer: dict[str, Any] = {"translatedText": translations}
        if asked.source == AUTO:
            answer["detectedLanguage"] = [_undetected(direction.source) for _ in asked.texts]
        if asked.alternatives:
            answer["alternatives"] = alternatives
        return answer if asked.is_list else {key: values[0] for key, values in answer.items()}

    def _translate_texts(self, direction: Direction, asked: TranslationRequest) -> list[list[str]]:
        """Returns different translations of each text, the best first: one, and as many as are asked for in addition.

        The translation of rank k of a text has the translation of rank k of each of its sentences.
        """
        divided = [direction.divide(text) for text in asked.texts]
        translate = direction.search_sentences if asked.alternatives else direction.translate_sentences
        remaining = iter(self._call(translate, [sentence for text in divided for sentence in text.sentences]))
        n_bests = []
        for text in divided:
            of_sentences = [next(remaining) for _ in text.sentences]
            ranks = range(max(map(len, of_sentences), default=1))
            ranked = [text.join([n_best[min(rank, len(n_best) - 1)] for n_best in of_sentences]) for rank in ranks]
            n_bests.append(list(dict.fromkeys(ranked))[: 1 + asked.alternatives])
        return n_bests

    def _call(self, function: Callable[[list[str]], list[Any]], texts: Sequence[str]) -> list[Any]:
        """Returns the result of a function for each text, see `BatchedCalls.call`."""
        try:
            return self._calls.call(function, texts, MOST_SECONDS)
        except TimeoutError:
            message = f"the translation took more than {MOST_SECONDS} seconds: send less text, or ask again later"
            raise TooManyRequests(message) from None

    def _detect(self, request: Request) -> list[dict[str, Any]]:
        """Answers `/detect`: all source languages, with the confidence 0."""
        _require(self._read_fields(request), "q")
        return [_undetected(source) for source in self._targets()]

    def _list_languages(self) -> list[dict[str, Any]]:
        """Answers `/languages`: each source language, and each target language without targets."""
        targets = self._targets()
        return [
            {"code": code, "name": name_language(code), "targets": targets.get(code, [])}
            for code in dict.fromkeys([*targets, *(direction.target for direction in self._directions)])
        ]

    def _settings(self) -> dict[str, Any]:
        """Answers `/frontend/settings`, which programs with a window read."""
        first = self._directions[0]
        return {
            "apiKeys": self._key is not None,
            "keyRequired": self._key is not None,
            "charLimit": MOST_CHARACTERS,
            "frontendTimeout": 500,
            "suggestions": False,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "language": {
                "source": {"code": first.source, "name": name_language(first.source)},
                "target": {"code": first.target, "name": name_language(first.target)},
            },
        }

    def _targets(self) -> dict[str, list[str]]:
        """Returns the codes of the target languages of each source language."""
        sources = dict.fromkeys(direction.source for direction in self._directions)
        return {
            source: [direction.target for direction in self._directions if direction.source == source]
            for source in sources
        }

    def _find_direction(self, asked: TranslationRequest) -> Direction:
        """Returns the direction of a request.

        Raises:
            BadRequest: there is none; or the source is `AUTO`, and several sources have the target.
        """
        to_target = [direction for direction in self._directions if _is_same(direction.target, asked.target)]
        if asked.source != AUTO:
            to_target = [direction for direction in to_target if _is_same(direction.source, asked.source)]
        if not to_target:
            known = ", ".join(f"{direction.source} to {direction.target}" for direction in self._directions)
            raise BadRequest(f"{asked.source:.60} to {asked.target:.60} is not supported: expected {known}")
        if len(to_target) > 1:
            sources = ", ".join(direction.source for direction in to_target)
            raise BadRequest(f"source: languages are not detected; expected one of {sources}, found {AUTO}")
        return to_target[0]

    def _read_fields(self, request: Request) -> dict[str, Any]:
        """Returns the fields of a request from a client that has the key. Fields that are null are left out.

        Raises:
            BadRequest: the request is neither a JSON object nor a form, or the key is missing.
            Forbidden: the key is wrong.
        """
        if request.is_json:
            try:
                values = parse_json(request.get_data(cache=False).decode())
            except ValueError as error:
                raise BadRequest(f"expected a JSON object, found something else: {error}") from None
            if not isinstance(values, dict):
                raise BadRequest("expected a JSON object, found another value")
        else:
            values = request.form.to_dict()
        fields = {name: value for name, value in values.items() if value is not None}
        if self._key is not None:
            given = fields.get("api_key")
            if not given:
                raise BadRequest("api_key: missing. Please contact the server operator to get an API key")
            if not hmac.compare_digest(str(given).encode(errors="replace"), self._key.encode()):
                raise Forbidden("Invalid API key")
        return fields


def _refuse(request: Request) -> Any:
    raise NotFound(f"{request.path}: this part of LibreTranslate is not answered")


def _require(fields: Mapping[str, Any], name: str) -> Any:
    """Returns a field. Raises a `BadRequest` if it is missing."""
    if name not in fields:
        hint = "; send a form, or JSON with Content-Type: application/json" if not fields or name == "q" else ""
        raise BadRequest(f"Invalid request: missing {name} parameter{hint}")
    return fields[name]


def _read_code(fields: Mapping[str, Any], name: str) -> str:
    """Returns the code of a language. Raises a `BadRequest` if it is missing or not text."""
    code = _require(fields, name)
    if not isinstance(code, str):
        raise BadRequest(f"{name}: expected the code of a language, such as en, found {code!r:.60}")
    return code


def _read_alternatives(fields: Mapping[str, Any]) -> int:
    """Returns the number of alternatives. Raises a `BadRequest` unless it is from 0 to `MOST_ALTERNATIVES`."""
    value = fields.get("alternatives", 0)
    numbers = {str(number): number for number in range(MOST_ALTERNATIVES + 1)}
    if str(value) not in numbers:
        raise BadRequest(f"alternatives: expected a number from 0 to {MOST_ALTERNATIVES}, found {value!r:.60}")
    return numbers[str(value)]


def _is_same(code: str, asked: str) -> bool:
    """Returns whether two codes name the same language: `cmn_Hans` and `cmn-hans` do."""
    return code.replace("_", "-").lower() == asked.replace("_", "-").lower()


def _undetected(code: str) -> dict[str, Any]:
    """Returns a language as a client expects one that was detected. The confidence 0 says that it was not."""
    return {"confidence": 0.0, "language": code}
