"""What the environment tells TensorFlow is checked before it is loaded."""

import json
import resource

import pytest

from pipeline.errors import InputError
from pipeline.runtime.environment import LEAST_ADDRESS_SPACE, THREADS, check_environment, count_workers

ADDRESS = "localhost:1"
TASK = {"type": "worker", "index": 0}


@pytest.mark.parametrize("name", THREADS)
@pytest.mark.parametrize("value", ["-1", "x", "1.5", "1e3", "99999999999999999999", "10001", "2,-1", "²", "0x2"])
def test_a_number_of_threads_that_is_none_is_refused(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{name}: expected a number of threads"):
        check_environment()


@pytest.mark.parametrize("value", ["", "0", "1", "16", "4,2"])
def test_numbers_of_threads_are_fine(value, monkeypatch):
    for name in THREADS:
        monkeypatch.setenv(name, value)
    check_environment()


@pytest.mark.parametrize(
    "value",
    [
        *("x", "[]", "1", "null", "[" * 100_000, '{"cluster": []}', '{"cluster": {"worker": "a:1"}}'),
        *('{"cluster": {"worker": [1]}, "task": {"type": "worker", "index": 0}}', '{"cluster": {"worker": ["a:1"]}}'),
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": [], "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": []}',
    ],
)
def test_machines_that_are_none_are_refused(value, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(InputError, match=r'TF_CONFIG: expected \{"cluster"'):
        check_environment()


def test_workers_are_counted(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert count_workers() == 1
    clusters = [
        ({}, 1),
        ({"worker": [ADDRESS]}, 1),
        ({"worker": [ADDRESS] * 2}, 2),
        ({"worker": [ADDRESS], "chief": [ADDRESS]}, 2),
    ]
    for cluster, workers in clusters:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": TASK}))
        assert count_workers() == workers


def test_too_little_address_space_is_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (LEAST_ADDRESS_SPACE - 1, -1))
    with pytest.raises(InputError, match=r"the address space is limited to 4095 MiB; .* ulimit -v unlimited"):
        check_environment()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (LEAST_ADDRESS_SPACE, -1))
    check_environment()
