"""Compares the memory of searches with the estimate by which `decoding.batch_sentences: auto` sizes batches on a GPU.

    python -m tests.benchmarks.search_memory

Each row is a search for targets of full length, in a process of its own, with a model of random weights. On a processor
the peak is that of the resident memory since just before the search, on a GPU TensorFlow's own.
"""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from qkv.decoding.beam import BeamSearch, BeamSettings
from qkv.decoding.translator import BatchMemory, search_graph
from qkv.model.decoder_only import DecoderOnly
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import Transformer
from qkv.runtime.graphs import GraphCache

SMALL = {"vocabulary_size": 8000, "d_model": 128, "num_heads": 4, "d_ff": 512}
BOTH = {"encoder_layers": 2, "decoder_layers": 2}
ARCHITECTURES = {"transformer": Transformer, "decoder_only": DecoderOnly, "recurrent": Recurrent}
# Name, architecture, its arguments, sentences, source tokens, target tokens, size of the beam.
CASES = [
    ("small", "transformer", SMALL | BOTH, 128, 24, 56, 5),
    ("short targets", "transformer", SMALL | BOTH, 128, 24, 24, 5),
    ("long targets", "transformer", SMALL | BOTH, 64, 24, 200, 5),
    ("long sources", "transformer", SMALL | BOTH, 64, 300, 40, 5),
    ("few words", "transformer", SMALL | BOTH | {"vocabulary_size": 1000}, 128, 24, 56, 5),
    (
        "wide",
        "transformer",
        {**BOTH, "vocabulary_size": 8000, "d_model": 512, "num_heads": 8, "d_ff": 2048},
        32,
        24,
        56,
        5,
    ),
    ("greedy", "transformer", SMALL | BOTH, 256, 24, 56, 1),
    ("decoder-only", "decoder_only", SMALL | {"layers": 4}, 128, 24, 56, 5),
    ("recurrent", "recurrent", {"vocabulary_size": 8000}, 128, 24, 56, 5),
]


def measure(architecture: str, arguments: dict, sentences: int, source: int, length: int, beam: int) -> list[float]:
    """Returns the peak and the estimate of a search, in bytes for each sentence."""
    keras.utils.set_random_seed(1)
    model = ARCHITECTURES[architecture](**arguments)
    model.build()
    search = BeamSearch(BeamSettings(beam, 1, min_length=length - 1))
    graph = search_graph(model, search, (), GraphCache())

    def search_batch(count: int) -> None:
        ids = np.random.default_rng(1).integers(4, arguments["vocabulary_size"], (count, source), np.int32)
        for output in graph(ids, np.full(count, length, np.int32), length, search.numbers, {}):
            output.numpy()

    estimate = BatchMemory.of(model, search.count).bytes_of_sentence(source, length)
    search_batch(1)  # traced
    before = _reset_peak()
    search_batch(sentences)
    return [(_peak() - before) / sentences, estimate]


def _reset_peak() -> int:
    """Resets the peak of the memory, and returns the bytes in use."""
    if tf.config.list_physical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")
        return tf.config.experimental.get_memory_info("GPU:0")["current"]
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    """Returns the peak of the memory since `_reset_peak`, in bytes."""
    if tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    return _status("VmHWM")


def _status(name: str) -> int:
    """Returns an entry of the process's status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(*json.loads(sys.argv[1]))))
        return
    print(f"{'KB a sentence':16} {'peak':>8} {'estimate':>8} {'ratio':>6}")
    for name, *case in CASES:
        command = [sys.executable, "-m", "tests.benchmarks.search_memory", json.dumps(case)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peak, estimate = json.loads(output.splitlines()[-1])
        print(f"{name:16} {peak / 1e3:8,.0f} {estimate / 1e3:8,.0f} {estimate / peak:6.2f}", flush=True)


if __name__ == "__main__":
    main()
