"""The live page's connections: an address that is taken, and clients that stay silent."""

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from qkv.errors import InputError
from qkv.live.server import LiveServer


def test_an_address_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"--port {port}: cannot listen there.*leave it out"):
            LiveServer(application, "127.0.0.1", port)
    with pytest.raises(InputError, match="an address of this machine"):
        LiveServer(application, "192.0.2.1", 0)


def application(environ, start_response):
    if environ["PATH_INFO"] == "/read":
        environ["wsgi.input"].read(100)
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
    monkeypatch.setattr("qkv.live.server.PATIENCE_SECONDS", 0.5)
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


def test_silent_and_broken_connections_do_not_stop_the_server(monkeypatch):
    monkeypatch.setattr("qkv.live.server.MOST_CONNECTIONS", 3)
    with serving() as address:
        silent = [socket.create_connection(address) for _ in range(3)]
        silent[0].sendall(b"POST /answer HTTP/1.1\r\nContent-Length: 100\r\n")
        with socket.create_connection(address) as refused:
            assert refused.recv(100) == b""  # no place is left
        for one in silent:
            one.close()
        while True:  # until a place is free again
            with socket.create_connection(address) as asked:
                asked.sendall(b"GET /?token=secret HTTP/1.0\r\nHost: localhost\r\n\r\n")
                if answer := asked.recv(100):
                    break
        assert b" 200 " in answer
