"""Scores what a stack has translated, and makes runs of the weights that it kept.

    python -m tests.benchmarks.stacked.table RUN FOLDER

RUN is that of `stacked.train`, and FOLDER has what it wrote. Writes `table.csv` and `table.md` there, and for every
kept model the run `FOLDER/runs/NAME`, for `evaluate.py`.
"""

import argparse
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu

from qkv.commands.cli import exit_cleanly
from qkv.config import RunConfig
from qkv.config.run import dump, load_started_run, make_run_config
from qkv.config.yaml import read_yaml
from qkv.files.atomic import new_folder
from qkv.files.run_directory import MADE_BY, RunDirectory
from qkv.model.build import build_model
from qkv.run.manifest import write_manifest
from qkv.text.tokens.run_tokenizer import load_tokenizer
from tests.benchmarks.racers.run import read_lines
from tests.benchmarks.training_runs import write_table

EXCHANGED = {"source": "target", "target": "source"}


def score(run: RunDirectory, folder: Path) -> list[dict[str, object]]:
    """Returns a row for every model: its name, loss, and the scores of its translations of the validation set."""
    files, tokenizer = load_started_run(run.config).data.validation, load_tokenizer(run.tokenizer)
    results, rows = read_results(folder), []
    translations = np.load(folder / "translations.npz")
    for result in results:
        texts = tokenizer.decode(translations[result["name"]])
        file = Path(files.source if result["reverse"] else files.target)
        references = [read_lines(file)]
        bleu = sacrebleu.corpus_bleu(texts, references, tokenize="none", force=True)
        rows.append(
            {
                "candidate": result["name"],
                "updates": result["updates"],
                "validation loss": f"{result['validation loss']:.4f}",
                "BLEU": bleu.score,
                "brevity penalty": f"{bleu.bp:.3f}",
                "chrF": sacrebleu.corpus_chrf(texts, references).score,
            }
        )
    return rows


def config_of(run: RunDirectory, root: Path, reverse: bool) -> RunConfig:
    """Returns the settings of the run `root` with the text of a run, source and target exchanged if in reverse."""
    values, origins = read_yaml(run.config)
    data = values["data"]
    if reverse:
        data["source_language"], data["target_language"] = data["target_language"], data["source_language"]
        for name in ("train", "validation", "test"):
            data[name] = {EXCHANGED.get(side, side): file for side, file in data[name].items()}
    values["run"] |= {"name": root.name, "directory": str(root.parent)}
    return make_run_config(values, origins, default_name=root.name)


def make_run(run: RunDirectory, root: Path, variables: Mapping[str, np.ndarray], reverse: bool) -> None:
    """Makes a run of the variables of a model, by path within it, with the text and tokenizer of a run."""
    config, tokenizer = config_of(run, root, reverse), load_tokenizer(run.tokenizer)
    with new_folder(root.absolute(), "makes a run of this name") as temporary:
        made = RunDirectory(temporary)
        shutil.copytree(run.tokenizer.parent, temporary / run.tokenizer.parent.name)
        model = build_model(config.model, tokenizer.vocabulary_size, "mixed_bfloat16")
        for variable in model.trainable_variables:
            variable.assign(variables[variable.path.partition("/")[2]].astype("float32"))
        made.config.write_text(MADE_BY + dump(config), encoding="utf-8")
        model.save(made.model)
        stack = {"format": "stack", "folder": str(root.parent)}
        origin = {"weights": "imported", "validation": {}, "data_sha256": {}, "imported_from": stack}
        write_manifest(config, made, model, tokenizer, origin)


def make_runs(run: RunDirectory, folder: Path) -> list[Path]:
    """Makes a run of every model whose weights are in the folder of a stack, unless it is there, and returns all."""
    results, roots = read_results(folder), []
    for result in results:
        weights = folder / "weights" / f"{result['name']}.npz"
        if weights.is_file():
            roots.append(folder / "runs" / re.sub(r"\W+", "_", result["name"].lower()))
            if not roots[-1].exists():
                with np.load(weights) as variables:
                    make_run(run, roots[-1], variables, result["reverse"])
    return roots


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Returns what `stacked.train` wrote of each model."""
    file = folder / "results.json"
    if not file.is_file():
        raise SystemExit(f"{file}: missing; expected what tests.benchmarks.stacked.train writes")
    return json.loads(file.read_text(encoding="utf-8"))


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Prints the table, and makes the runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the run whose text was trained")
    parser.add_argument("folder", type=Path, help="what stacked.train wrote")
    options = parser.parse_args(arguments)
    run, folder = RunDirectory.open(options.run), options.folder.absolute()
    write_table(score(run, folder), folder)
    for root in make_runs(run, folder):
        print(root)


if __name__ == "__main__":
    raise SystemExit(main())
