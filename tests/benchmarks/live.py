"""Asks a live page's server: how long an answer takes, and what eight clients at once get.

python -m tests.benchmarks.live RUN [--seconds 60]
"""

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np

SENTENCE = "a group of people are standing in front of a large building with their bags ."
ASKED = 200
CLIENTS = 8


def ask(address: str, **question) -> tuple[int, float]:
    """Returns the status of an answer and its seconds."""
    parts = urlsplit(address)
    headers = {"Content-Type": "application/json", "X-QKV-Token": parse_qs(parts.query)["token"][0]}
    started = time.perf_counter()
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    connection.request("POST", "/answer", json.dumps({"text": SENTENCE, **question}), headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, time.perf_counter() - started


def memory(process: int) -> float:
    """Returns the memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def print_latencies(name: str, address: str, **question) -> None:
    first = ask(address, **question)[1]
    seconds = [ask(address, **question)[1] for _ in range(ASKED)]
    half, most = 1000 * np.quantile(seconds, [0.5, 0.99])
    print(f"{name}: first {first:.2f} s, then p50 {half:.0f} ms, p99 {most:.0f} ms of {ASKED}")


def print_load(address: str, process: int, seconds: float) -> None:
    statuses: Counter = Counter()
    until, before, readings = time.monotonic() + seconds, memory(process), []

    def client() -> None:
        while time.monotonic() < until:
            statuses[ask(address)[0]] += 1

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        time.sleep(seconds / 6)
        readings.append(round(memory(process)))
    for thread in threads:
        thread.join()
    print(f"{CLIENTS} clients for {seconds:.0f} s: answers by status {dict(statuses)}")
    print(f"MB before {before:.0f}, then {readings}")


def main() -> None:
    """Starts the server, asks, ends it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=60, help="of eight clients (default: 60)")
    options = parser.parse_args()
    started = time.perf_counter()
    command = [sys.executable, "-m", "qkv", "live", str(options.run), "--no_browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        address = server.stdout.readline().strip()
        print(f"address printed after {time.perf_counter() - started:.1f} s")
        try:
            print_latencies("greedy", address)
            off = [{"site": "cross", "layer": 0, "head": 0, "change": "zeroed"}]
            print_latencies("greedy, a head off", address, changes=off)
            print_latencies("beam of 5", address, beam_size=5, n_best=5)
            print_load(address, server.pid, options.seconds)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
