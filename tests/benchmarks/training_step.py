"""Times an update of ours against the same Transformer made with other libraries, side by side, each in its process.

    python -m tests.benchmarks.training_step [--width 128] [--layers 4] [--turns 7]

All: post-norm, 4 heads, feed-forward twice the width, vocabulary 8,000, dropout 0.1, label smoothing 0.1, Adam, 200
sentences of 20 tokens on either side, one table for all embeddings. Turns are interleaved; the figures are medians.
The share of the product rate is that of the arithmetic of an update (three times the products of a forward pass) in the
products of 2,048 x 2,048 matrices in the same number format that TensorFlow makes in the same time. All
compute on a GPU where their library sees one.
"""

import argparse

from tests.benchmarks.contest import Contestant, add_options, chosen, hold, machine, table

CONTESTANTS = {
    "qkv, float32": ("training_qkv", {"precision": "float32"}),
    "qkv, mixed_bfloat16": ("training_qkv", {"precision": "mixed_bfloat16"}),
    "qkv, mixed_bfloat16, XLA": ("training_qkv", {"precision": "mixed_bfloat16", "xla": True}),
    "plain Keras, float32": ("training_keras", {"precision": "float32"}),
    "plain Keras, float32, XLA": ("training_keras", {"precision": "float32", "xla": True}),
    "plain Keras, mixed_bfloat16": ("training_keras", {"precision": "mixed_bfloat16"}),
    "KerasHub, float32": ("training_keras_hub", {"precision": "float32"}),
    "PyTorch nn.Transformer, float32": ("training_torch", {"precision": "float32"}),
    "PyTorch nn.Transformer, bfloat16": ("training_torch", {"precision": "bfloat16"}),
    "PyTorch nn.Transformer, float32, compiled": ("training_torch", {"precision": "float32", "compiled": True}),
    "Hugging Face Marian, float32": ("training_marian", {"precision": "float32"}),
    "Hugging Face Marian, bfloat16": ("training_marian", {"precision": "bfloat16"}),
}


PRODUCTS = {f"products, {name}": ("products", {"precision": name}) for name in ("float32", "bfloat16")}


def product_flops(settings) -> float:
    """Arithmetic operations of the matrix products of an update, forward and backward."""
    width, hidden, layers = settings["width"], settings["hidden"], settings["layers"]
    length, tokens = settings["length"], settings["sentences"] * settings["length"]
    encoder = 4 * width**2 + 2 * width * hidden + 2 * length * width
    decoder = 8 * width**2 + 2 * width * hidden + 4 * length * width
    return 6.0 * tokens * (layers * (encoder + decoder) + width * settings["vocabulary"])


def report(contestants: list[Contestant], settings) -> str:
    """The table, the fastest first."""
    tokens = settings["sentences"] * settings["length"]
    training = [one for one in contestants if one.name not in PRODUCTS]
    speeds = {one.name: tokens / one.median("seconds") for one in training}
    best = max(speed for name, speed in speeds.items() if name.startswith("qkv"))
    rates = {one.name: one.median("flops") / one.median("seconds") for one in contestants if one.name in PRODUCTS}
    rows = []
    for one in sorted(training, key=lambda one: -speeds[one.name]):
        speed = speeds[one.name]
        rate = rates["products, bfloat16" if "bfloat16" in one.name else "products, float32"]
        share = product_flops(settings) / one.median("seconds") / rate
        rows.append(
            [
                one.name,
                f"{speed:,.0f}",
                f"{best / speed:.2f}",
                f"{100 * share:.0f} %",
                f"{one.median('peak_megabytes'):,.0f}",
                f"{one.start_seconds:.1f}",
            ]
        )
    header = ["", "target tokens/s", "times slower", "of the product rate", "peak memory, MB", "start, s"]
    of_machine = ", ".join(f"{rate / 1e9:.0f} GFLOP/s of {name}" for name, rate in rates.items())
    return f"{table(header, rows)}\n\n{machine()}; {of_machine}"


def main() -> None:
    """Times them and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=128, help="d_model (default: 128)")
    parser.add_argument("--layers", type=int, default=4, help="of encoder and decoder each (default: 4)")
    parser.add_argument("--vocabulary", type=int, default=8000, help="(default: 8000)")
    parser.add_argument("--sentences", type=int, default=200, help="of a batch (default: 200)")
    parser.add_argument("--length", type=int, default=20, help="tokens of a sentence (default: 20)")
    add_options(parser, turns=7)
    options = parser.parse_args()
    settings = {
        "width": options.width,
        "heads": 4,
        "hidden": 2 * options.width,
        "layers": options.layers,
        "vocabulary": options.vocabulary,
        "dropout": 0.1,
        "sentences": options.sentences,
        "length": options.length,
        "threads": options.threads,
    }
    contestants = chosen(CONTESTANTS, options.only) | PRODUCTS
    wanted = [(name, module, {**settings, **more}) for name, (module, more) in contestants.items()]
    print(report(hold(wanted, options.turns, options.threads), settings))


if __name__ == "__main__":
    main()
