"""Measures time, memory and scored pairs of every attention mechanism against length, beside Keras' own layers.

    python tests/benchmarks/attention.py [--lengths 64,128,...] [--mechanisms NAME,...] [--out runs/attention]
    python tests/benchmarks/attention.py --additive [--length 1024] [--batch 8]

The first prints a table and the growth exponents, and writes both, `attention.csv` and a log-log plot. Self-attention
of a sequence of vectors of 128 numbers, without mask: 4 heads of 32, or one additive head of 128 units, in float32.
The second compares blockwise additive attention with `keras.layers.AdditiveAttention` after the same projections: the
two take turns, and the ratios are those of the medians.

Each measurement is a process of its own. It traces the layer for any length and calls it with a short sequence, so
that what TensorFlow and the trace need is there; memory is how far the process's resident set then rises above that
in the first call at the full length. Time is the median of further calls. What would not fit in memory is "-".
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

import keras
import matplotlib as mpl
import numpy as np
import pandas as pd
import tensorflow as tf

from qkv.attention.additive import AdditiveAttention
from qkv.attention.mechanisms import MECHANISM_CLASSES
from qkv.attention.relative_positions import Distances, alibi_bias, rotation
from qkv.attention.self_attention import SelfAttention
from qkv.runtime.machine import keep_freed_memory

mpl.use("Agg")

from matplotlib import pyplot as plt

WIDTH, HEADS, SIZE, SHORT = 128, 4, 32, 16
PROJECTED = 64
LSH = {"buckets": 16, "chunk_length": 32, "rounds": 2}
PASSES = ("forward", "forward and backward")


@dataclass(frozen=True)
class Variant:
    """A layer to measure.

    Args:
        layers: makes, for a length, the layers and the function of x `(B, T, WIDTH)` that calls them.
        pairs: of how many queries and keys one head computes scores, for a length; forward.
        held: how many numbers the largest array holds for each of these.
        growth: the expected exponents of time and memory.
        mechanism: its name among `MECHANISM_CLASSES`; None for Keras' own.
    """

    layers: Callable
    pairs: Callable
    held: int
    growth: tuple
    mechanism: str | None = None


def heads(mechanism, **settings):
    """Our layer of several heads with a mechanism; settings that are functions are called with the length."""

    def layers(length):
        known = {name: value(length) if callable(value) else value for name, value in settings.items()}
        layer = SelfAttention(HEADS, SIZE, mechanism=MECHANISM_CLASSES[mechanism](**known))
        return [layer], lambda x: layer(x)[0]

    return layers


def placed(kind):
    """Our layer of several heads that sees distances."""

    def layers(length):
        layer = SelfAttention(HEADS, SIZE)

        def context(x):
            places = tf.range(tf.shape(x)[1])
            if kind == "rotary":
                return layer(x, distances=Distances(rotation(places, SIZE)))[0]
            return layer(x, distances=Distances(bias=alibi_bias(places, places, HEADS)))[0]

        return [layer], context

    return layers


def shared(length):
    """Our layer whose heads share keys and values."""
    layer = SelfAttention(HEADS, SIZE, key_value_heads=1)
    return [layer], lambda x: layer(x)[0]


def additive(mechanism):
    """Our additive layer with a mechanism."""

    def layers(length):
        layer = AdditiveAttention(WIDTH, mechanism=mechanism)
        return [layer], lambda x: layer(x, key=x, value=x)[0]

    return layers


def keras_heads(length):
    """Keras' layer of several heads."""
    layer = keras.layers.MultiHeadAttention(HEADS, SIZE)
    return [layer], lambda x: layer(x, x)


def keras_additive(length):
    """Keras' additive layer after the projections that it lacks."""
    query, key = (keras.layers.Dense(WIDTH, use_bias=False) for _ in range(2))
    layer = keras.layers.AdditiveAttention()
    return [query, key, layer], lambda x: layer([query(x), x, key(x)])


def squared(length):
    return length**2


def lsh_pairs(length):
    """Every round compares the slots of every chunk with those of two chunks."""
    chunk = LSH["chunk_length"]
    return LSH["rounds"] * ((length + LSH["buckets"] * (chunk - 1)) // chunk) * 2 * chunk**2


VARIANTS = {
    "softmax": Variant(heads("softmax"), squared, HEADS, (2, 2), "softmax"),
    "Keras MultiHeadAttention": Variant(keras_heads, squared, HEADS, (2, 2)),
    "sink": Variant(heads("sink"), squared, HEADS, (2, 2), "sink"),
    "rotary positions": Variant(placed("rotary"), squared, HEADS, (2, 2), "softmax"),
    "ALiBi": Variant(placed("alibi"), squared, HEADS, (2, 2), "softmax"),
    "one head of keys and values": Variant(shared, squared, HEADS, (2, 2), "softmax"),
    "blockwise": Variant(heads("blockwise"), squared, 0, (2, 1), "blockwise"),
    "linformer": Variant(
        heads("linformer", projected_length=PROJECTED, max_length=lambda n: max(n, SHORT)),
        lambda n: n * PROJECTED,
        HEADS,
        (1, 1),
        "linformer",
    ),
    "lsh": Variant(heads("lsh", **LSH), lsh_pairs, HEADS, (1, 1), "lsh"),
    "softmax additive": Variant(additive("softmax"), squared, WIDTH, (2, 2), "softmax"),
    "Keras AdditiveAttention": Variant(keras_additive, squared, WIDTH, (2, 2)),
    "blockwise additive": Variant(additive("blockwise"), squared, 0, (2, 1), "blockwise"),
}


def call_of(variant, length, batch, backward):
    """A graph, for any length, of the layer's context or of all gradients of a function of it."""
    layers, context_of = variant.layers(length)

    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(context_of(x) ** 2)
        return tape.gradient(total, [x, *(v.value for layer in layers for v in layer.trainable_variables)])

    context_of(tf.zeros((batch, SHORT, WIDTH)))  # builds
    signature = [tf.TensorSpec((batch, None, WIDTH))]
    return tf.function(gradients if backward else context_of, input_signature=signature, autograph=False)


def measure_here(name, length, batch, backward, seconds):
    """Measures in this process: `{"milliseconds": ..., "megabytes": ...}`."""
    call = call_of(VARIANTS[name], length, batch, backward)
    x = tf.random.normal((batch, length, WIDTH), seed=1)
    call(x[:, :SHORT])
    with contextlib.suppress(OSError):  # lets the highest resident set so far be the present one, on Linux
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    call(x)
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 1e6
    keep_freed_memory()  # as in training
    times, end = [], time.perf_counter() + seconds
    while len(times) < 4 or (time.perf_counter() < end and len(times) < 50):
        start = time.perf_counter()
        [result.numpy() for result in tf.nest.flatten(call(x))]
        times.append(time.perf_counter() - start)
    return {"milliseconds": statistics.median(times[1:]) * 1e3, "megabytes": megabytes}


def measure(name, length, batch, backward, seconds=2.0):
    """Measures in a process of its own."""
    job = json.dumps([name, length, batch, backward, seconds])
    run = subprocess.run([sys.executable, __file__, "--job", job], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{name} at length {length}: {run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def rows_of(names, lengths, batch, gigabytes):
    """A row for each variant, length and pass."""
    for name, length, backward in product(names, lengths, (False, True)):
        variant = VARIANTS[name]
        # The gradient of a softmax holds about four arrays of the largest size, the forward pass two.
        needed = batch * variant.pairs(length) * variant.held * 4 * (4 if backward else 2)
        measured = measure(name, length, batch, backward) if needed < gigabytes * 1e9 else {}
        print(f"{name}, {length}, {PASSES[backward]}: {measured}", file=sys.stderr)
        # A blockwise gradient computes all scores again.
        pairs = variant.pairs(length) * (2 if backward and variant.mechanism == "blockwise" else 1)
        row = {"variant": name, "length": length, "pass": PASSES[backward], "pairs": pairs}
        yield row | (measured or {"milliseconds": None, "megabytes": None})


def growth(table, column):
    """Log-log slope over the larger half of the lengths."""
    known = table[["length", column]].dropna()
    known = known[known["length"] ** 2 >= known["length"].min() * known["length"].max()]
    if len(known) < 2 or known[column].min() <= 0:
        return None
    return float(np.polyfit(np.log(known["length"]), np.log(known[column]), 1)[0])


def exponents(table):
    """Measured beside expected growth, forward and backward."""
    for name, own in table[table["pass"] == PASSES[1]].groupby("variant", sort=False):
        expected = dict(zip(("milliseconds", "megabytes"), VARIANTS[name].growth, strict=True))
        row = {"variant": name}
        for column in ("milliseconds", "megabytes", "pairs"):
            row[column] = growth(own, column)
            row |= {f"{column} expected": expected[column]} if column in expected else {}
        yield row


def markdown(table):
    """A table as Markdown, numbers short."""

    def cell(x):
        if isinstance(x, str):
            return x
        return "-" if pd.isna(x) else f"{x:,.0f}" if abs(x) >= 100 or x == int(x) else f"{x:.2f}"

    lines = [list(table.columns), ["---"] * len(table.columns), *([cell(x) for x in row] for row in table.values)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(table, path):
    """Time and memory of both passes against length, both axes logarithmic."""
    figure, panels = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for panel, column, label in zip(panels, ("milliseconds", "megabytes"), ("time, ms", "memory, MB"), strict=True):
        for name, own in table[table["pass"] == PASSES[1]].groupby("variant", sort=False):
            style = "--" if name.startswith("Keras") else "-"
            panel.loglog(own["length"], own[column].clip(lower=0.1), style, marker="o", label=name)
        panel.set(xlabel="length", ylabel=f"{label}, forward and backward")
        panel.grid(alpha=0.3, which="both")
    panels[0].legend()
    figure.savefig(path, dpi=120)


def compare_additive(length, batch, turns):
    """Blockwise additive attention against Keras' layer, in turns: ratios of memory and time."""
    names = "blockwise additive", "Keras AdditiveAttention"
    found = {(name, backward): [] for backward in (False, True) for name in names}
    for name, backward in list(found) * turns:
        found[name, backward].append(measure(name, length, batch, backward))
    rows = []
    for backward, column in product((False, True), ("megabytes", "milliseconds")):
        ours, peer = (statistics.median(turn[column] for turn in found[name, backward]) for name in names)
        rows.append([PASSES[backward], column, ours, peer, ours / peer])
    print(f"length {length}, {WIDTH} units, batch {batch}, medians of {turns} turns\n")
    print(markdown(pd.DataFrame(rows, columns=["pass", "measured", *names, "ratio"])))


def main():
    """Measures and writes, or compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="64,128,256,512,1024,2048,4096", help="(default: %(default)s)")
    parser.add_argument("--mechanisms", default=",".join(VARIANTS), help="of the table's rows (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/attention"), help="folder (default: %(default)s)")
    parser.add_argument("--gigabytes", type=float, default=3.0, help="skip what needs more (default: %(default)s)")
    parser.add_argument("--additive", action="store_true", help="compare additive attention with Keras' layer")
    parser.add_argument("--length", type=int, default=1024, help="with --additive (default: %(default)s)")
    parser.add_argument("--batch", type=int, help="sequences (default: 8 with --additive, otherwise 1)")
    parser.add_argument("--turns", type=int, default=3, help="with --additive (default: %(default)s)")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(measure_here(*json.loads(options.job))))
        return
    if options.additive:
        compare_additive(options.length, options.batch or 8, options.turns)
        return
    names = [name for name in options.mechanisms.split(",") if VARIANTS[name].mechanism in (None, *MECHANISM_CLASSES)]
    lengths = [int(length) for length in options.lengths.split(",")]
    table = pd.DataFrame(list(rows_of(names, lengths, options.batch or 1, options.gigabytes)))
    slopes = pd.DataFrame(list(exponents(table)))
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out / "attention.csv", index=False)
    draw(table, options.out / "attention.png")
    text = f"{markdown(table)}\n\nGrowth with length to the power of:\n\n{markdown(slopes)}\n"
    (options.out / "attention.md").write_text(text, encoding="utf-8")
    print(f"{text}\nTable, numbers and plot: {options.out}")


if __name__ == "__main__":
    main()
