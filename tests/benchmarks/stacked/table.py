"""Scores what a stack has translated, and makes runs of the weights that it kept.

    python -m tests.benchmarks.stacked.table RUN FOLDER

RUN is that of `stacked.train`, and FOLDER has what it wrote. Writes `table.csv` and `table.md` there, and for every
kept model the run `FOLDER/runs/NAME`, for `evaluate.py`.
"""

import argparse
import json
import re
import shutil
from pathlib import Path

import numpy as np
import sacrebleu

from pipeline.config import RunConfig
from pipeline.config.run import dump, make_run_config
from pipeline.config.started_run import read_started_run
from pipeline.model.build import build_model
from pipeline.new_folder import new_folder
from pipeline.run_directory import RunDirectory
from pipeline.text.given_tokenizer import load_tokenizer
from pipeline.trained_run.manifest import write_imported_manifest
from tests.benchmarks.racers.run import read_lines
from tests.benchmarks.training_runs import write_table

EXCHANGED = {"source": "target", "target": "source"}


def score(run: RunDirectory, folder: Path) -> list[dict[str, object]]:
    """Returns a row for every model: its name, loss, and the scores of its translations of the validation set."""
    config, tokenizer = config_of(run, reverse=False), load_tokenizer(run.tokenizer)
    files = config.data.validation
    translations, rows = np.load(folder / "translations.npz"), []
    for result in json.loads((folder / "results.json").read_text(encoding="utf-8")):
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


def config_of(run: RunDirectory, reverse: bool, root: Path | None = None) -> RunConfig:
    """Returns the settings of a run, with source and target exchanged if it is to translate in reverse."""
    values, origins = read_started_run(run.config)
    if reverse:
        data = values["data"]
        data["source_language"], data["target_language"] = data["target_language"], data["source_language"]
        for name in ("train", "validation", "test"):
            data[name] = {EXCHANGED.get(side, side): file for side, file in data[name].items()}
    if root is not None:
        values["run"] |= {"name": root.name, "directory": str(root.parent)}
    return make_run_config(values, origins, default_name=run.root.name)


def make_run(run: RunDirectory, root: Path, arrays: dict[str, np.ndarray], reverse: bool) -> None:
    """Makes a run of the variables of a model, by path within it, with the text and tokenizer of a run."""
    config, tokenizer = config_of(run, reverse, root), load_tokenizer(run.tokenizer)
    with new_folder(root.absolute(), "makes a run of a stack") as temporary:
        made = RunDirectory(temporary)
        shutil.copytree(run.tokenizer.parent, temporary / run.tokenizer.parent.name)
        model = build_model(config.model, tokenizer.vocabulary_size, "mixed_bfloat16")
        for variable in model.trainable_variables:
            variable.assign(arrays[variable.path.partition("/")[2]].astype("float32"))
        made.config.write_text(dump(config), encoding="utf-8")
        model.save(made.model)
        write_imported_manifest(config, made, model, tokenizer, {"format": "stack", "folder": str(root.parent)})


def make_runs(run: RunDirectory, folder: Path) -> None:
    """Makes runs of all weights in the folder of a stack."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    reverse = {result["name"]: result["reverse"] for result in results}
    for file in sorted(folder.glob("weights_*.npz")):
        variables: dict[str, dict[str, np.ndarray]] = {}
        with np.load(file) as archive:
            for key in archive.files:
                name, path = key.split("|")
                variables.setdefault(name, {})[path] = archive[key]
        for name, arrays in variables.items():
            root = folder / "runs" / re.sub(r"\W+", "_", name.lower())
            make_run(run, root, arrays, reverse[name])
            print(f"made {root}")


def main() -> None:
    """Prints the table, and makes the runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the run whose text was trained")
    parser.add_argument("folder", type=Path, help="what stacked.train wrote")
    arguments = parser.parse_args()
    run, folder = RunDirectory.open(arguments.run), arguments.folder.absolute()
    write_table(score(run, folder), folder)
    make_runs(run, folder)


if __name__ == "__main__":
    main()
