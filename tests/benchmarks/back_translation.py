"""What back-translated text brings on Multi30k, where most pairs are taken for German text alone.

    python data/multi30k/prepare.py
    python -m tests.benchmarks.back_translation [--updates 2000] [--seeds 1 2] [--only NAME ...]

A model from German to English, trained on the first 10,000 pairs, draws an English sentence for each of the other
German ones. Then models from English to German are trained on equal updates: on these pairs alone, on them and the
drawn ones with a tag (a pair counts as much as any other), and on them and the true ones. All are
`configs/multi30k_en_de_small.yaml` with 2 + 2 layers and without R-Drop. BLEU is that of greedy search on the
validation set. Configs, text and runs go to `runs/back_translation/`; the same command goes on with what was stopped.
"""

import subprocess
import sys
from pathlib import Path

from qkv.config.yaml import dump_yaml, read_yaml
from qkv.files.atomic import replaced_when_done
from tests.benchmarks.training_runs import ROOT, read_options, train, trained, two_layers, write_table

FOLDER = Path("runs/back_translation")
TEXT = FOLDER / "text"
CORPUS = Path("data/multi30k/lc.norm.tok")
CONFIG = "configs/multi30k_en_de_small.yaml"
PAIRS = 10_000

NAMES = ("the pairs alone", "and drawn sources", "and the true sources")


def main() -> None:
    """Trains what is missing, then prints the table."""
    options = read_options(__doc__.splitlines()[0], 2000, NAMES)
    updates = options.updates
    divide()
    config = write_config("reverse", "de", [])
    reverse = train(FOLDER / f"reverse-{updates}", config, two_layers(updates, 1))
    drawn = draw_sources(reverse)
    others: dict[str, list[dict[str, str]]] = {
        NAMES[0]: [],
        NAMES[1]: [{"source": str(drawn), "target": str(TEXT / "alone.de"), "tag": "<bt>"}],
        NAMES[2]: [{"source": str(TEXT / "hidden.en"), "target": str(TEXT / "alone.de")}],
    }
    rows = []
    for seed in options.seeds:
        for name in options.only:
            folder = f"{name.replace(' ', '_')}-{updates}"
            run = train(
                FOLDER / f"{folder}-seed{seed}", write_config(folder, "en", others[name]), two_layers(updates, seed)
            )
            rows.append({"text": name, "seed": seed, **trained(run)})
    write_table(rows, FOLDER)


def divide() -> None:
    """Divides the training text: `known.en` and `known.de`, and of the others `hidden.en` and `alone.de`."""
    for language, other in (("en", "hidden"), ("de", "alone")):
        lines = (ROOT / CORPUS / f"train.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        for name, part in (("known", lines[:PAIRS]), (other, lines[PAIRS:])):
            with replaced_when_done(ROOT / TEXT / f"{name}.{language}") as temporary:
                temporary.write_text("".join(part), encoding="utf-8")


def write_config(name: str, source: str, others: list[dict[str, str]]) -> str:
    """Writes the config of a model that translates from `source` and is trained on the known pairs and on `others`, and
    returns its path."""
    target = {"en": "de", "de": "en"}[source]
    values, _ = read_yaml(ROOT / CONFIG)
    known = {"source": str(TEXT / f"known.{source}"), "target": str(TEXT / f"known.{target}")}
    values["data"] |= {"source_language": source, "target_language": target, "train": [known, *others]}
    values["data"]["validation"] = {
        side: str(CORPUS / f"val.{language}") for side, language in (("source", source), ("target", target))
    }
    del values["data"]["test"]
    del values["inspection"]  # its probes are English
    path = FOLDER / f"{name}.yaml"
    (ROOT / path).write_text(dump_yaml(values), encoding="utf-8")
    return str(path)


def draw_sources(reverse: Path) -> Path:
    """Draws a source for each sentence of `alone.de`, unless that has been done, and returns their file."""
    drawn = TEXT / f"{reverse.name}.en"
    if (ROOT / drawn).is_file():
        return drawn
    command = [sys.executable, "-m", "qkv", "translate", str(reverse), "--search", "sampling", "--seed", "1"]
    with (
        (ROOT / TEXT / "alone.de").open("rb") as sentences,
        replaced_when_done(ROOT / drawn) as temporary,
        temporary.open("wb") as file,
    ):
        subprocess.run([*command, "--no_normalize"], cwd=ROOT, stdin=sentences, stdout=file, check=True)
    return drawn


if __name__ == "__main__":
    main()
