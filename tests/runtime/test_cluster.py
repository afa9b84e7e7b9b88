"""The workers of `TF_CONFIG`, and how they find each other before TensorFlow connects them."""

import json
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from qkv.errors import InputError, LostWorkerError
from qkv.runtime.cluster import Cluster, meet, read_cluster
from tests.support.processes import PATIENCE_SECONDS, free_ports

ADDRESS = "localhost:1"
TASK = {"type": "worker", "index": 0}


def test_workers_are_counted(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert read_cluster() is None
    clusters = [
        ({}, None),
        ({"worker": [ADDRESS]}, None),
        ({"worker": [ADDRESS] * 2}, 2),
        ({"worker": [ADDRESS], "chief": [ADDRESS]}, 2),
    ]
    for cluster, workers in clusters:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": TASK}))
        cluster = read_cluster()
        assert (cluster and len(cluster)) == workers


SOON = 0.02  # minutes


def make_clusters(number):
    addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(number))
    names = tuple(f"worker {index}" for index in range(number))
    return [Cluster(addresses, names, index) for index in range(number)]


def outcomes(*calls):
    """What each of some calls, which run side by side, returns or raises."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(*call) for call in calls]
        return [future.exception() for future in futures]


def test_workers_go_on_once_all_are_there_in_whatever_order_they_come():
    clusters = make_clusters(3)
    assert outcomes(*((meet, cluster) for cluster in (clusters[1], clusters[0], clusters[2]))) == [None] * 3
    for cluster in clusters:  # TensorFlow takes the addresses next
        socket.create_server(cluster.address(cluster.index)).close()


def test_a_chief_gives_up_and_names_who_did_not_start(caplog, monkeypatch):
    monkeypatch.setattr("qkv.runtime.cluster._FIRST_NOTICE_SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    clusters = make_clusters(3)
    chief, other = outcomes((meet, clusters[0], None, SOON), (meet, clusters[2], None, 2 * SOON))
    missing = f"worker 1 ({clusters[0].addresses[1]}) to start"
    assert isinstance(chief, LostWorkerError) and str(chief) == f"waited {SOON} minutes for {missing}"
    assert isinstance(other, LostWorkerError) and f"for worker 0 ({clusters[0].addresses[0]})" in str(other)
    assert "waiting for worker 1 (" in caplog.text and "; giving up in 0.0 minutes" in caplog.text


def stray(address, greeting):
    """Comes to the chief as soon as it listens, says that, and goes."""
    for _ in range(1000):
        try:
            with socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection:
                connection.sendall(greeting)
                return
        except OSError:
            time.sleep(0.01)


def test_a_worker_that_was_started_anew_counts_once():
    chief, second, third = make_clusters(3)

    def come_again():
        stray(chief.address(0), json.dumps({"worker": 1, "addresses": ["another"]}).encode() + b"\n")
        meet(second)

    def come_last():
        stray(chief.address(0), b"")  # when the chief listens
        time.sleep(0.5)
        meet(third)

    assert outcomes((meet, chief), (come_again,), (come_last,)) == [None] * 3


def test_what_is_wrong_on_one_worker_ends_all():
    clusters = make_clusters(3)
    found = outcomes((meet, clusters[0]), (meet, clusters[1], "model.depth: unknown"), (meet, clusters[2]))
    assert found[1] is None  # it says so itself
    for error in (found[0], found[2]):
        assert isinstance(error, InputError)
        assert str(error) == f"worker 1 ({clusters[0].addresses[1]}): model.depth: unknown"


def test_workers_of_different_clusters_are_refused():
    chief, other = make_clusters(2)
    stranger = Cluster((other.addresses[0], f"127.0.0.1:{free_ports(1)[0]}"), other.names, 1)
    for error in outcomes((meet, chief), (meet, stranger)):
        assert isinstance(error, InputError)
        assert f"worker 1 ({chief.addresses[1]}) has the workers {', '.join(stranger.addresses)}" in str(error)


@contextmanager
def program_at(address, answer):
    """Another program that listens there, and answers each connection so."""
    with socket.create_server(address) as server, ThreadPoolExecutor(1) as pool:

        def serve():
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                with connection:
                    connection.sendall(answer)

        pool.submit(serve)
        yield
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [b"\x00\x00\x18\x04", b'{"answer"\n', b"[]\n", b'{"other": 1}\n', b""])
def test_a_port_that_another_program_has_is_waited_for(answer):
    chief, other = make_clusters(2)
    with program_at(chief.address(0), answer):
        errors = outcomes((meet, chief, None, SOON), (meet, other, None, SOON))
    port = chief.address(0)[1]
    assert isinstance(errors[0], LostWorkerError) and f"port {port} of this machine" in str(errors[0])
    assert isinstance(errors[1], LostWorkerError)


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b'{"worker": 7}\n', b'{"worker": true}\n', b"[" * 9999]
)
def test_a_chief_passes_over_strangers(greeting, monkeypatch):
    monkeypatch.setattr("qkv.runtime.cluster._LINE_SECONDS", 1.0)
    chief, other = make_clusters(2)
    assert outcomes((meet, chief), (stray, chief.address(0), greeting), (meet, other)) == [None] * 3


def test_a_chief_does_not_wait_for_a_stranger_who_sends_byte_by_byte(monkeypatch):
    monkeypatch.setattr("qkv.runtime.cluster._LINE_SECONDS", 0.2)
    chief, _ = make_clusters(2)
    bytes_left = iter(range(400))

    def trickle():
        stray(chief.address(0), b"")  # when the chief listens
        with suppress(OSError), socket.create_connection(chief.address(0)) as connection:
            for _ in bytes_left:
                connection.sendall(b" ")
                time.sleep(0.05)

    error, _ = outcomes((meet, chief, None, SOON), (trickle,))
    assert isinstance(error, LostWorkerError) and next(bytes_left, None) is not None
