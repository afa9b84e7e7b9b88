"""The server of the live page: loads runs, lets each translate a first sentence, and listens.

It serves a limited number of connections at once. It closes those that send slowly, nothing, or without end, and if
there are too many, the one that it has waited for the longest.
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
from .live_run import LiveRun
from .page import describe_changes, find_examples, live_page
from .question import Question

BEAMS = (1, 5, 10)
EVERY_ADDRESS = ("0.0.0.0", "::")  # of this machine
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class ServedPage:
    """A page that is being served, until it is closed; in a notebook it shows itself.

    Args:
        server: bound to its address.
        address: the address to open, token included.
        height: of the page in a notebook, in pixels.
    """

    def __init__(self, server: ThreadedWSGIServer, address: str, height: int) -> None:
        self.address = address
        self._server = server
        self._height = height
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait(self) -> None:
        """Returns when the server has ended, which it does not by itself."""
        self._thread.join()

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self._height}" style="border: 0" title="live page" allow="clipboard-write"'
        return f'<iframe src="{escape(self.address)}" {frame}></iframe>'


def load_live_runs(chosen: Sequence[tuple[Path, str]]) -> list[LiveRun]:
    """Loads the runs of these folders and checkpoints, see `load_run`.

    Raises:
        InputError: one cannot be loaded.
    """
    return [LiveRun(load_run(*one), name) for one, name in zip(chosen, _name_all(chosen), strict=True)]


def serve(
    runs: Sequence[LiveRun],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_hosts: Sequence[str] = (),
    height: int = 900,
) -> ServedPage:
    """Serves a page on which runs answer side by side, at an address to listen on; see `live`.

    Raises:
        InputError: the address is taken.
    """
    examples = find_examples(runs[0].run)
    facts = {
        "runs": [_describe(run, examples) for run in runs],
        "beams": list(BEAMS),
        "changes": describe_changes(CHANGES),
        "rows": True,
        "examples": examples,
    }
    shown = socket.gethostname() if host in EVERY_ADDRESS else f"[{host}]" if ":" in host else host
    access = AccessCheck([*LOCAL_NAMES, shown], allow_hosts)
    title = " and ".join(run.name for run in runs)
    server = LiveServer(LivePage(runs, live_page(title, facts), access), host, port)
    return ServedPage(server, f"http://{shown}:{server.port}/?token={access.token}", height)


def _describe(live: LiveRun, examples: Sequence[str]) -> dict[str, Any]:
    """Returns the facts of a run that the page needs; its first answer prepares the graphs."""
    facts = live.answer(Question(text=examples[0] if examples else "a")).facts
    return {
        "name": live.name,
        "heads": live.changes.heads,
        "explained": live.explained,
        "types": describe_types(read_head_types(live.run.directory.evaluation("test").head_types)),
        "sites": facts["sites"],
        "units": facts["units"],
        "facts": page_facts(live.run.config, live.run.model.count_params(), {}),
    }


def _name_all(runs: Sequence[tuple[Path, str]]) -> list[str]:
    names = [root.absolute().name for root, _ in runs]
    if len(set(names)) < len({root.absolute() for root, _ in runs}):
        names = [str(root) for root, _ in runs]
    several = len({checkpoint for _, checkpoint in runs}) > 1
    names = [f"{name}, {checkpoint}" if several else name for name, (_, checkpoint) in zip(names, runs, strict=True)]
    return [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]


MOST_CONNECTIONS = 40
PATIENCE_SECONDS = 20  # for all that a client sends, and for each thing that it is sent
LEAVING_SECONDS = 1  # for a connection that makes room for another one
MOST_ARRIVING = 2 * MOST_BYTES  # with the headers; beyond it werkzeug would read on, up to 10 GB, to be polite


class _Arriving(io.RawIOBase):
    """The bytes of a client, at most `MOST_ARRIVING`, until `PATIENCE_SECONDS` are over: the timeout of a socket starts
    again with each byte. While it waits for bytes, it is in `waiting`, with its start."""

    def __init__(self, connection: socket.socket, waiting: dict[socket.socket, float]) -> None:
        self._connection, self._waiting = connection, waiting
        self._start = time.monotonic()
        self._end = self._start + PATIENCE_SECONDS
        self._left = MOST_ARRIVING

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        self._waiting[self._connection] = self._start
        try:
            size = self._connection.recv_into(buffer, min(len(buffer), self._left)) if self._left else 0
        finally:
            self._waiting.pop(self._connection, None)
            self._connection.settimeout(PATIENCE_SECONDS)
        self._left -= size
        return size


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_SECONDS
    server: "LiveServer"

    def setup(self) -> None:
        """Prepares what is read; called by the standard library."""
        super().setup()
        self.rfile = io.BufferedReader(_Arriving(self.connection, self.server.waiting))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing of requests that went well: the token would be in the log."""

    def log(self, *args: Any) -> None:
        """Says nothing of clients that hang up; called by the library."""


class LiveServer(ThreadedWSGIServer):
    """A thread for each connection, and no more connections than `MOST_CONNECTIONS`: a further one takes the place of
    the one that has been waited for the longest. It is closed if all others have asked and wait for their answers.

    Attributes:
        waiting: the connections that have not sent all yet, and when they began.

    Raises:
        InputError: the address is taken, or not this machine's.
    """

    def __init__(self, application: Any, host: str, port: int) -> None:
        self._connections = BoundedSemaphore(MOST_CONNECTIONS)
        self.waiting: dict[socket.socket, float] = {}
        super().__init__(host, port, application, _Handler)

    def server_bind(self) -> None:
        """Binds the socket; called by the library, which would end the process if that fails."""
        try:
            super().server_bind()
        except OSError as error:
            self.server_close()
            mend = "choose another --port, or leave it out" if self.port else "expected an address of this machine"
            place = f"--host {self.host}, --port {self.port}"
            raise InputError(f"{place}: cannot listen there: {error.strerror}; {mend}") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread; called by the standard library."""
        if self._connections.acquire(blocking=False) or self._make_room():
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _make_room(self) -> bool:
        """Takes the place of the connection that has been waited for the longest; returns whether there was one."""
        waiting = sorted(self.waiting.copy().items(), key=lambda item: item[1])
        if not waiting:
            return False
        with suppress(OSError):  # it may have left
            waiting[0][0].shutdown(socket.SHUT_RDWR)
        return self._connections.acquire(timeout=LEAVING_SECONDS)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves one connection; called by the standard library."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of connections that broke; called by the standard library."""
