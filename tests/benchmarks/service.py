"""Lets clients ask the service of a run for paragraphs: requests a second, latency, refusals, order, and memory.

python -m tests.benchmarks.service RUN --source FILE [--seconds 60] [--clients 8] [--sentences 5]

Each client sends other paragraphs than the others. An answer is compared with the translations of its sentences, which
are asked for one by one beforehand. Sentences that are translated together are padded, so floating-point numbers and
with them a translation can differ; what has another sentence's translation is counted apart.
"""

import argparse
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from tests.benchmarks.live import memory

MOST_PARAGRAPHS = 160
"""The number of different paragraphs, each of which is asked for many times."""


def ask(address: str, q: object, source: str, target: str) -> tuple[int, dict]:
    """Returns the status and the answer of `/translate`."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    body = json.dumps({"q": q, "source": source, "target": target})
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def as_written(line: str) -> str:
    """Returns a sentence with a capital, and no space before its end, so that it is found again in a paragraph."""
    line = line.strip()
    return f"{line[0].upper()}{line[1:-1].rstrip()}{line[-1]}"


def languages(address: str) -> tuple[str, str]:
    """Returns the first source language of the service, and its first target."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    connection.request("GET", "/languages")
    first = json.loads(connection.getresponse().read())[0]
    connection.close()
    return first["code"], first["targets"][0]


def measure(address: str, process: int, options: argparse.Namespace) -> None:
    """Asks for the time of `--seconds`, and prints the figures."""
    source, target = languages(address)
    lines = options.source.read_text(encoding="utf-8").splitlines()
    sentences = list(dict.fromkeys(as_written(line) for line in lines if line.strip()[-1:] in tuple(".!?")))
    size, count = options.sentences, min(MOST_PARAGRAPHS, len(sentences) // options.sentences)
    groups = [sentences[i * size : (i + 1) * size] for i in range(count)]
    if count < options.clients:
        raise SystemExit(f"--source: expected at least {options.clients * size} sentences, found {len(sentences)}")
    expected = [[ask(address, sentence, source, target)[1]["translatedText"] for sentence in group] for group in groups]
    statuses: Counter = Counter()
    outcomes: Counter = Counter()
    seconds: list[float] = []
    until, before, readings = time.monotonic() + options.seconds, memory(process), []

    def client(number: int) -> None:
        own = range(number, count, options.clients)
        turn = 0
        while time.monotonic() < until:
            index = own[turn % len(own)]
            started = time.perf_counter()
            status, answer = ask(address, " ".join(groups[index]), source, target)
            seconds.append(time.perf_counter() - started)
            statuses[status] += 1
            if status == 200:
                outcomes[judge(answer["translatedText"], expected, index)] += 1
            turn += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(options.clients)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        time.sleep(options.seconds / 12)
        readings.append(round(memory(process)))
    for thread in threads:
        thread.join()
    answered = statuses[200]
    half, most = np.quantile(seconds, [0.5, 0.95])
    rate = answered / options.seconds
    print(f"{options.clients} clients, paragraphs of {size} sentences, {options.seconds:.0f} s")
    print(
        f"answers {answered}: {rate:.1f} requests/s, {rate * size:.0f} sentences/s; refused {len(seconds) - answered}"
    )
    print(
        f"latency: median {1000 * half:.0f} ms, 95th percentile {1000 * most:.0f} ms, most {1000 * max(seconds):.0f} ms"
    )
    print(f"answers compared with their sentences alone: {dict(outcomes)}")
    print(f"memory (RSS): {before:.0f} MB at the beginning, then {readings} MB")


def judge(answer: str, expected: list[list[str]], index: int) -> str:
    """Returns whether an answer is `equal` to the translations of its paragraph, `close`, or of `another` paragraph."""
    whole = " ".join(expected[index])
    if answer == whole:
        return "equal"
    words = Counter(answer.split())
    shared = [sum((words & Counter(" ".join(texts).split())).values()) for texts in expected]
    return "close" if max(shared) == shared[index] else "another"


def main() -> None:
    """Starts the server, asks, and ends it as a service manager does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True, help="sentences of the source language, one a line")
    parser.add_argument("--seconds", type=float, default=60, help="of all clients together (default: 60)")
    parser.add_argument("--clients", type=int, default=8, help="number of clients (default: 8)")
    parser.add_argument("--sentences", type=int, default=5, help="sentences in a paragraph (default: 5)")
    options = parser.parse_args()
    command = [sys.executable, "-m", "qkv", "live", str(options.run), "--api"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        server.stdout.readline()
        address = server.stdout.readline().split()[1]
        try:
            measure(address, server.pid, options)
        finally:
            server.send_signal(signal.SIGTERM)
            print(f"exit status after SIGTERM: {server.wait()}")


if __name__ == "__main__":
    main()
