"""The server of the live page, and the page that it serves.

The server limits the number of connections, and the time and the size of a request. If there are too many connections,
it closes the one whose request has been incomplete for the longest time.
"""

import io
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Self

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from ..errors import InputError
from ..evaluation.page import page_facts
from ..inspection.experiments.intervention import CHANGES
from ..inspection.head_types import describe_types, read_head_types
from ..run.trained_run import load_run
from .access import AccessCheck
from .application import MOST_BYTES, LivePage
from .direction import Direction
from .live_run import LiveRun
from .page import find_examples, find_split_words, live_page, profile_heads
from .question import Question
from .service import TranslationService

OFFERED_BEAM_SIZES = (1, 5, 10)
"""The beam sizes that the page offers."""

EVERY_ADDRESS = ("0.0.0.0", "::")
"""The values of --host that stand for all addresses of this machine."""

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The host names of this machine for itself."""


class ServedPage:
    """A page that is being served in a thread until `close` is called. Notebooks show it in a frame.

    It is a context manager, which closes the page at the end.

    Args:
        server: the server, bound to its address.
        address: the address to open, with the token.
        height: the height of the page in a notebook, in pixels.
        service: the interface for other programs; None if there is none.
    """

    def __init__(
        self, server: "LiveServer", address: str, height: int, service: TranslationService | None = None
    ) -> None:
        self.address = address
        self._server = server
        self._service = service
        self._height = height
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the server and closes its socket, after the answers in progress."""
        self._server.shutdown()
        self._server.server_close()
        self._server.finish()
        if self._service:
            self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait(self) -> None:
        """Blocks until the server is closed."""
        self._thread.join()

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self._height}" style="border: 0" title="live page" allow="clipboard-write"'
        return f'<iframe src="{escape(self.address)}" {frame}></iframe>'


def load_live_runs(models: Sequence[tuple[Path, str]]) -> list[LiveRun]:
    """Loads runs, and gives each a name for the page.

    Args:
        models: pairs of a run's folder and a checkpoint, see `run.trained_run.load_run`.

    Raises:
        InputError: a run cannot be loaded.
    """
    names = _name_models(models)
    return [LiveRun(load_run(root, checkpoint), name) for (root, checkpoint), name in zip(models, names, strict=True)]


def serve(
    runs: Sequence[LiveRun],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_hosts: Sequence[str] = (),
    height: int = 900,
    directions: Sequence[Direction] = (),
    api_key: str | None = None,
) -> ServedPage:
    """Starts a server for a page with runs side by side. Each run first translates a sentence, to trace its graphs.

    Args:
        runs: the runs, at least one.
        host: the address to listen on.
        port: the port; 0 for any free port.
        allow_hosts: further host names of the page, such as that of a proxy.
        height: the height of the page in a notebook, in pixels.
        directions: the runs that other programs can call, see `live.service`; by default none.
        api_key: the key that these programs need; None if they need none.

    Raises:
        InputError: the address is taken, or is not an address of this machine.
    """
    examples = find_examples(runs[0].run)
    facts = {
        "runs": [_describe(run, examples) for run in runs],
        "beams": list(OFFERED_BEAM_SIZES),
        "changes": list(CHANGES),
        "rows": True,
        "examples": examples,
    }
    url_host = f"[{host}]" if ":" in host else host
    host_name = socket.gethostname() if host in EVERY_ADDRESS else url_host
    access = AccessCheck([*LOCAL_NAMES, host_name], allow_hosts)
    title = " and ".join(run.name for run in runs)
    page = LivePage(runs, live_page(title, facts), access)
    service = TranslationService(page, directions, access, api_key) if directions else None
    server = LiveServer(service or page, host, port)
    return ServedPage(server, f"http://{host_name}:{server.port}/?token={access.token}", height, service)


def _describe(live: LiveRun, examples: Sequence[str]) -> dict[str, Any]:
    """Returns the facts of a run that the page needs, JSON-ready. Translates an example, which traces the graphs."""
    facts = live.answer(Question(text=examples[0] if examples else "a")).facts
    evaluation = live.run.directory.evaluation("test")
    return {
        "name": live.name,
        "heads": live.changes.heads,
        "explained": live.explained,
        "stepped": live.stepped,
        "types": describe_types(read_head_types(evaluation.head_types)),
        "profiles": profile_heads(evaluation),
        "splitWords": find_split_words(live.run),
        "sites": facts["sites"],
        "units": facts["units"],
        "facts": page_facts(live.run.config, live.run.model.count_params(), {}),
    }


def _name_models(models: Sequence[tuple[Path, str]]) -> list[str]:
    """Returns a different name for each model of `load_live_runs`.

    The name is the name of the run's folder, or its path if different folders have the same name. The checkpoint is
    added if the models have different checkpoints, and a number if names are still equal.
    """
    names = [root.absolute().name for root, _ in models]
    if len(set(names)) < len({root.absolute() for root, _ in models}):
        names = [str(root) for root, _ in models]
    if len({checkpoint for _, checkpoint in models}) > 1:
        names = [f"{name}, {checkpoint}" for name, (_, checkpoint) in zip(names, models, strict=True)]
    return [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]


MOST_CONNECTIONS = 40
"""The largest number of connections at a time."""

SHUTDOWN_SECONDS = 20
"""The time limit for a whole request, and for each part of a response."""

LEAVING_SECONDS = 1
"""The time limit for closing a connection in favour of another."""

WAITING_SECONDS = 0.1
"""The time between two looks at the connections that a closing server waits for."""

MOST_ARRIVING = 2 * MOST_BYTES
"""The largest size of a request with its headers. Without it, werkzeug reads a longer request on, up to 10 GB."""


class _RequestStream(io.RawIOBase):
    """The stream of bytes of a client's request. It ends after `MOST_ARRIVING` bytes.

    The whole request must arrive within `SHUTDOWN_SECONDS`. The timeout of a socket is not enough: it starts again with
    each byte.

    Args:
        connection: the client's socket.
        waiting: connection -> the time at which its request began. While the stream waits for bytes, its connection is
            in this dict.

    Raises:
        TimeoutError: the time is over; raised by the methods that read.
    """

    def __init__(self, connection: socket.socket, waiting: dict[socket.socket, float]) -> None:
        self._connection = connection
        self._waiting = waiting
        self._start = time.monotonic()
        self._end = self._start + SHUTDOWN_SECONDS
        self._remaining_bytes = MOST_ARRIVING

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining_seconds = self._end - time.monotonic()
        if remaining_seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining_seconds)
        self._waiting[self._connection] = self._start
        size = 0
        try:
            if self._remaining_bytes:
                size = self._connection.recv_into(buffer, min(len(buffer), self._remaining_bytes))
        finally:
            self._waiting.pop(self._connection, None)
            self._connection.settimeout(SHUTDOWN_SECONDS)
        self._remaining_bytes -= size
        return size


class _Handler(WSGIRequestHandler):
    """Handles the requests of a connection within the limits of `_RequestStream`. It logs nothing."""

    timeout = SHUTDOWN_SECONDS
    server: "LiveServer"

    def setup(self) -> None:
        """Sets the stream of the request. The standard library calls this method."""
        super().setup()
        self.rfile = io.BufferedReader(_RequestStream(self.connection, self.server.waiting))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Does not log requests: the token would be in the log."""

    def log(self, *args: Any) -> None:
        """Does not log closed connections. Werkzeug calls this method."""


class LiveServer(ThreadedWSGIServer):
    """A server with a thread for each connection, and at most `MOST_CONNECTIONS` connections.

    A further connection replaces the one whose request has been incomplete for the longest time. If all requests are
    complete and wait for answers, the further connection is closed.

    Args:
        application: the WSGI application.
        host: the address to listen on.
        port: the port; 0 for any free port.

    Attributes:
        waiting: connection whose request is incomplete -> the time at which it began, by `time.monotonic`.

    Raises:
        InputError: the address is taken, or is not an address of this machine.
    """

    def __init__(self, application: Any, host: str, port: int) -> None:
        self._most_connections = MOST_CONNECTIONS
        self._connections = BoundedSemaphore(MOST_CONNECTIONS)
        self.waiting: dict[socket.socket, float] = {}
        super().__init__(host, port, application, _Handler)

    def finish(self) -> None:
        """Waits until the answers in progress are sent, at most `SHUTDOWN_SECONDS`. Call it after `shutdown`.

        Connections whose request is incomplete are closed.
        """
        end = time.monotonic() + SHUTDOWN_SECONDS
        ended = 0
        while ended < self._most_connections and time.monotonic() < end:
            if self._connections.acquire(timeout=WAITING_SECONDS):
                ended += 1
                continue
            for connection in self.waiting.copy():
                _cut_off(connection)
        for _ in range(ended):
            self._connections.release()

    def server_bind(self) -> None:
        """Binds the socket to the host and port. Without this method, werkzeug would end the process on an error.

        Raises:
            InputError: the address is taken, or is not an address of this machine.
        """
        try:
            super().server_bind()
        except OSError as error:
            self.server_close()
            advice = "choose another --port, or leave it out" if self.port else "expected an address of this machine"
            options = f"--host {self.host}, --port {self.port}"
            raise InputError(f"{options}: cannot listen there: {error.strerror}; {advice}") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for a new connection, or closes the connection if there are too many.

        The standard library calls this method.
        """
        if self._connections.acquire(blocking=False) or self._close_slowest():
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _close_slowest(self) -> bool:
        """Closes the connection whose request has been incomplete for the longest time.

        Returns:
            True if a connection has ended within `LEAVING_SECONDS`; False if none ended or no request is incomplete.
        """
        waiting = sorted(self.waiting.copy().items(), key=lambda item: item[1])
        if not waiting:
            return False
        connection, _ = waiting[0]
        _cut_off(connection)
        return self._connections.acquire(timeout=LEAVING_SECONDS)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves one connection. The standard library calls this method."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Does not report broken connections. The standard library calls this method."""


def _cut_off(connection: socket.socket) -> None:
    """Ends a connection, unless its client has closed it already."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
