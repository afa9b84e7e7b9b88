"""Times our translation of a test set against other programs with the same weights, side by side, each in its process.

    python -m tests.benchmarks.decoding RUN --source FILE --reference FILE [--beam 5] [--turns 5]

Everyone is given text and returns text; loading and compiling are the start, which is apart. CTranslate2 and Hugging
Face get the run's own weights and tokenizer, so that their translations can be compared with ours, too: by a search
without length penalty, since everybody has another formula for it. KerasHub's model has random weights.
"""

import argparse
import json
import tempfile
from pathlib import Path

from tests.benchmarks.contest import Contestant, add_options, chosen, hold, machine, table

CONTESTANTS = {
    "qkv": ("decoding_qkv", {}),
    "CTranslate2, float32": ("decoding_ctranslate2", {}),
    "CTranslate2, float32, a batch a core": ("decoding_ctranslate2", {"batches_apart": True}),
    "CTranslate2, int8": ("decoding_ctranslate2", {"quantization": "int8"}),
    "Hugging Face Marian, float32": ("decoding_marian", {}),
    "KerasHub BART, random weights": ("decoding_keras_hub", {"xla": False}),
    "KerasHub BART, random weights, XLA": ("decoding_keras_hub", {"xla": True}),
}


def report(contestants: list[Contestant]) -> str:
    """The table, in the order of the contestants."""
    own = contestants[0].median("seconds")
    rows = [
        [
            one.name,
            f"{one.median('seconds'):.2f}",
            f"{one.median('seconds') / own:.2f}",
            f"{one.median('tokens') / one.median('seconds'):,.0f}",
            f"{one.median('peak_megabytes'):,.0f}",
            f"{one.start_seconds:.1f}",
        ]
        for one in contestants
    ]
    header = ["", "seconds", "times ours", "target tokens/s", "peak memory, MB", "start, s"]
    return f"{table(header, rows)}\n\n{machine()}; medians of {len(contestants[0].turns)} turns"


def agreement(outputs: dict[str, Path]) -> str:
    """How many sentences each translates as ours does."""
    translations = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in outputs.items()}
    own = translations.pop("qkv")
    equal = {name: sum(map(str.__eq__, own, other)) for name, other in translations.items()}
    return "\n".join(
        f"{name}: the same translation of {count} of {len(own)} sentences" for name, count in equal.items()
    )


def main() -> None:
    """Times them, compares translations, prints both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a post-norm Transformer with ReLU and one table")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate")
    parser.add_argument("--reference", type=Path, required=True, help="as long as which KerasHub's translations are")
    parser.add_argument("--beam", type=int, default=5, help="(default: 5)")
    parser.add_argument("--batch", type=int, default=64, help="sentences at once, of the others (default: 64)")
    add_options(parser, turns=5)
    options = parser.parse_args()
    common = {
        "run": str(options.run.resolve()),
        "source": str(options.source.resolve()),
        "reference": str(options.reference.resolve()),
        "beam": options.beam,
        "batch": options.batch,
        "threads": options.threads,
    }
    entered = {name: (module, {**common, **more}) for name, (module, more) in chosen(CONTESTANTS, options.only).items()}
    timed = [(name, module, {**settings, "length_penalty": 1.0}) for name, (module, settings) in entered.items()]
    print(report(hold(timed, options.turns, options.threads)))
    with tempfile.TemporaryDirectory() as folder:
        comparable = [name for name in entered if "random" not in name and "int8" not in name]
        outputs = {name: Path(folder) / f"{number}.json" for number, name in enumerate(comparable)}
        hold(
            [
                (name, entered[name][0], {**entered[name][1], "length_penalty": 0.0, "output": str(outputs[name])})
                for name in comparable
            ],
            0,
            options.threads,
        )
        print(agreement(outputs))


if __name__ == "__main__":
    main()
