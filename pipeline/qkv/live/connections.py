"""The connections of the live page's server: so many at once, and none that sends slowly or nothing."""

import io
import socket
import time
from threading import BoundedSemaphore
from typing import Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from ..errors import InputError

MOST_CONNECTIONS = 40
PATIENCE_SECONDS = 20  # for all that a client sends, and for each thing that it is sent


class _Arriving(io.RawIOBase):
    """What a client sends, until `PATIENCE_SECONDS` are over: the timeout of a socket starts anew with each byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = time.monotonic() + PATIENCE_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(PATIENCE_SECONDS)


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_SECONDS

    def setup(self) -> None:
        """Prepares what is read; called by the standard library."""
        super().setup()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing of requests that went well: the token would be in the log."""

    def log(self, *args: Any) -> None:
        """Says nothing of clients that hang up; called by the library."""


class _Server(ThreadedWSGIServer):
    """A thread for each connection, and no more connections than `MOST_CONNECTIONS`: further ones are closed."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._connections = BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread; called by the standard library."""
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves one connection; called by the standard library."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of connections that broke; called by the standard library."""


def make_live_server(page: Any, host: str, port: int) -> ThreadedWSGIServer:
    """Binds the server to an address that `check_address` has found free.

    Args:
        page: the application.
        host: the address to listen on.
        port: 0 for any that is free.
    """
    return _Server(host, port, page, _Handler)


def check_address(host: str, port: int) -> None:
    """Checks that an address can be listened on: the server itself would end the process.

    Raises:
        InputError: it is taken, or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, port))
    except OSError as error:
        mend = "choose another --port, or leave it out" if port else "expected an address of this machine"
        raise InputError(f"--host {host}, --port {port}: cannot listen there: {error.strerror}; {mend}") from None
