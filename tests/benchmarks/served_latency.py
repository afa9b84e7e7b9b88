"""How long a client of an exported SavedModel waits, alone and beside others, in one process with all cores.

qkv export RUN FOLDER --format saved_model
python -m tests.benchmarks.served_latency FOLDER --source FILE [--seconds 20]
"""

import argparse
import itertools
import threading
import time
from pathlib import Path

import numpy as np

CLIENTS = (1, 8, 32)


def ask_for(translate, sentences, clients, seconds) -> list[float]:
    """Lets each client ask one sentence after the other; returns the seconds of all answers."""
    import tensorflow as tf

    taken: list[float] = []
    until, turn = time.monotonic() + seconds, itertools.cycle(sentences)

    def client() -> None:
        while time.monotonic() < until:
            source = tf.constant([next(turn)])
            started = time.perf_counter()
            translate(source=source, beam=tf.constant(False))
            taken.append(time.perf_counter() - started)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def main() -> None:
    """Prints a line for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, required=True, help="sentences, one per line")
    parser.add_argument("--seconds", type=float, default=20, help="of each number of clients (default: 20)")
    options = parser.parse_args()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's operations

    translate = tf.saved_model.load(str(options.folder)).signatures["translate"]
    sentences = options.source.read_text(encoding="utf-8").splitlines()[:200]
    for sentence in sentences[:10]:
        translate(source=tf.constant([sentence]), beam=tf.constant(False))
    for clients in CLIENTS:
        taken = ask_for(translate, sentences, clients, options.seconds)
        half, most = 1000 * np.quantile(taken, [0.5, 0.99])
        print(
            f"{clients} clients: p50 {half:.0f} ms, p99 {most:.0f} ms, {len(taken) / options.seconds:.1f} sentences/s"
        )


if __name__ == "__main__":
    main()
