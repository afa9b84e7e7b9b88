"""The live page's connections: an address that is taken, and clients that stay silent."""

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from qkv.errors import InputError
from qkv.live.server import LiveServer
from tests.support.processes import PATIENCE_SECONDS


def test_an_address_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"--port {port}: cannot listen there.*leave it out"):
            LiveServer(application, "127.0.0.1", port)
    with pytest.raises(InputError, match="an address of this machine"):
        LiveServer(application, "192.0.2.1", 0)


BUSY, FREE = threading.Event(), threading.Event()


def application(environ, start_response):
    if environ["PATH_INFO"] == "/read":
        environ["wsgi.input"].read(100)
    if environ["PATH_INFO"] == "/busy":
        BUSY.set()
        assert FREE.wait(PATIENCE_SECONDS)
    start_response("200 OK", [])
    return [b"here"]


@contextmanager
def serving():
    server = LiveServer(application, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "127.0.0.1", server.port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HEADERS = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"


@pytest.mark.parametrize("begin", [b"POST /", b"POST /read" + HEADERS], ids=["headers", "body"])
def test_a_request_that_arrives_byte_by_byte_is_given_up(monkeypatch, begin):
    monkeypatch.setattr("qkv.live.server.SHUTDOWN_SECONDS", 0.5)
    with serving() as address, socket.create_connection(address) as slow:
        slow.sendall(begin)
        slow.settimeout(0.1)
        for _ in range(99):
            try:
                with suppress(TimeoutError):
                    if slow.recv(1000) == b"":
                        return
                slow.sendall(b"x")
            except ConnectionError:
                return
    pytest.fail("the connection is still open")


ASKED = b"GET /?token=secret HTTP/1.0\r\nHost: localhost\r\n\r\n"


def test_a_visitor_takes_the_place_of_the_longest_silent_connection(monkeypatch):
    monkeypatch.setattr("qkv.live.server.MOST_CONNECTIONS", 3)
    with serving() as address:
        silent = []
        for _ in range(5):
            silent.append(socket.create_connection(address))
            silent[-1].sendall(b"POST /answer HTTP/1.1\r\nContent-Length: 100\r\n")
        with socket.create_connection(address) as asked:
            asked.sendall(ASKED)
            assert b" 200 " in asked.recv(100)
        for connection in silent[:2]:
            assert connection.recv(100) == b""
        for connection in silent:
            connection.close()


def test_a_connection_is_closed_if_all_others_wait_for_their_answers(monkeypatch):
    monkeypatch.setattr("qkv.live.server.MOST_CONNECTIONS", 1)
    with serving() as address, socket.create_connection(address) as busy:
        busy.sendall(b"GET /busy HTTP/1.0\r\n\r\n")
        assert BUSY.wait(PATIENCE_SECONDS)
        with socket.create_connection(address) as refused:
            assert refused.recv(100) == b""
        FREE.set()
        assert b" 200 " in busy.recv(100)


@pytest.mark.parametrize("path", [b"/", b"/read"])
@pytest.mark.parametrize("chunk", [b"8000\r\n" + b"x" * 0x8000 + b"\r\n", b"FFFFFFFF\r\n" + b"x" * 0x8000])
def test_a_request_without_end_is_given_up(monkeypatch, path, chunk):
    monkeypatch.setattr("qkv.live.server.MOST_ARRIVING", 100_000)
    with serving() as address, socket.create_connection(address) as endless:
        endless.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(4000):
                endless.sendall(chunk)


def test_a_server_that_ends_waits_for_answers_and_not_for_silent_clients():
    BUSY.clear()
    FREE.clear()
    server = LiveServer(application, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = "127.0.0.1", server.port
    with socket.create_connection(address) as silent, socket.create_connection(address) as busy:
        silent.sendall(b"POST /read")
        busy.sendall(b"GET /busy HTTP/1.0\r\n\r\n")
        assert BUSY.wait(PATIENCE_SECONDS)
        server.shutdown()
        finishing = threading.Thread(target=server.finish, daemon=True)
        finishing.start()
        assert silent.recv(100) == b""
        assert finishing.is_alive()
        FREE.set()
        finishing.join(PATIENCE_SECONDS)
        assert b" 200 " in busy.recv(100)
    server.finish()  # once more, which does not wait
    BUSY.clear()
    FREE.clear()
