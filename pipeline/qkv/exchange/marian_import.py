"""The import of a Marian folder, a model of Hugging Face, as a run."""

import hashlib
from pathlib import Path
from typing import Any

from ..config import RunConfig
from ..config.run import dump, make_run_config
from ..errors import InputError
from ..files.atomic import new_folder, replaced_when_done, write_atomically
from ..files.json import write_json
from ..files.paths import new_name_problem, sha256
from ..files.run_directory import RunDirectory
from ..model.build import build_model
from ..run.manifest import write_manifest
from ..text.tokens.marian_tokenizer import SIDES, MarianTokenizer, read_model
from .marian_config import MarianConfig, read_marian_config
from .marian_vocabulary import MarianVocabulary, read_marian_vocabulary
from .marian_weights import MarianWeights, assign_arrays, read_arrays


def import_marian(folder: Path, root: Path, languages: dict[str, str]) -> tuple[RunConfig, MarianVocabulary]:
    """Imports a Marian folder as a run. If it fails, no run is left behind.

    Args:
        folder: a folder that `save_pretrained` of a MarianMTModel and of its MarianTokenizer wrote.
        root: the run's folder, which must not exist yet.
        languages: the language codes of the sides `source` and `target`, by the name of the side. A missing side gets
            the language that the folder names.

    Returns:
        `(config, vocabulary)`: the settings of the run, and its vocabulary.

    Raises:
        InputError: the folder is missing or damaged, holds another kind of model, or names no language for a side that
            `languages` lacks; or the run exists already, or its name is not allowed.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected the folder that save_pretrained of a Marian model wrote")
    if problem := new_name_problem(root.absolute().name):
        raise InputError(f"RUN: {problem}")
    marian = read_marian_config(folder)
    vocabulary = read_marian_vocabulary(folder, marian)
    config = _settings(marian, len(vocabulary.pieces), root, _languages(marian, languages, folder))
    weights = MarianWeights(folder)
    arrays = read_arrays(weights, marian, vocabulary)
    models = {side: read_model(folder / f"{side}.spm") for side in SIDES}
    with new_folder(root.absolute(), "imports a run of this name") as temporary:
        run = RunDirectory(temporary)
        _write_tokenizer(run, vocabulary, models)
        tokenizer = MarianTokenizer(run.given_tokenizer)
        model = build_model(config.model, tokenizer.vocabulary_size)
        assign_arrays(model, arrays)
        run.write_config(dump(config))
        with replaced_when_done(run.model) as path:
            model.save(path)
        ancestor = {"format": "marian", "folder": str(folder), "sha256": _digests(folder, weights.path)}
        origin = {"weights": "imported", "validation": {}, "data_sha256": {}, "imported_from": ancestor}
        write_manifest(config, run, model, tokenizer, origin)
    return config, vocabulary


def _languages(marian: MarianConfig, codes: dict[str, str], folder: Path) -> dict[str, str]:
    """Returns the settings `source_language` and `target_language`.

    Args:
        marian: the settings of the Marian model.
        codes: the language codes by side. A missing code is taken from `tokenizer_config.json`.
        folder: the Marian folder, for messages.

    Raises:
        InputError: a side has no language code.
    """
    languages = {}
    for side in SIDES:
        tokenizer_code = marian.tokenizer.get(f"{side}_lang")
        code = codes.get(side) or (tokenizer_code if isinstance(tokenizer_code, str) else None)
        if not code:
            raise InputError(
                f"{folder / 'tokenizer_config.json'}: {side}_lang: expected the code of the {side} language, found "
                f"{tokenizer_code!r:.60}; add --{side}_language CODE"
            )
        languages[f"{side}_language"] = code
    return languages


def _settings(marian: MarianConfig, vocabulary_size: int, root: Path, languages: dict[str, str]) -> RunConfig:
    """Returns the settings of a run that gives the same outputs as the Marian model."""
    longest = {f"max_{side}_tokens": marian.model["max_positions"] - 1 for side in SIDES}
    values: dict[str, Any] = {
        "run": {"name": root.absolute().name, "directory": str(root.absolute().parent)},
        "data": {**languages, "train": None, "validation": None, **longest},
        "tokenizer": {"kind": "given", "vocabulary_size": vocabulary_size},
        "model": dict(marian.model),
        "training": {},
        "decoding": dict(marian.decoding),
    }
    return make_run_config(values, {}, default_name=root.name)


def _write_tokenizer(run: RunDirectory, vocabulary: MarianVocabulary, models: dict[str, bytes]) -> None:
    """Writes the files of a `text.tokens.marian_tokenizer.MarianTokenizer` into the run.

    Args:
        run: the folder of the run.
        vocabulary: the pieces and their ids.
        models: the SentencePiece models, by `source` and `target`.
    """
    for side, model in models.items():
        write_atomically(run.given_tokenizer.with_name(f"{side}.spm"), model)
    write_json(
        run.given_tokenizer,
        {
            "pieces": vocabulary.pieces,
            "sides": vocabulary.sides,
            "special": vocabulary.special,
            "decodes": "source" if vocabulary.shared else "target",  # as Hugging Face does
            "sha256": {side: hashlib.sha256(model).hexdigest() for side, model in models.items()},
        },
    )


def _digests(folder: Path, weights: Path) -> dict[str, str]:
    """Returns the SHA-256 digest of each file of the folder that the import reads, by its name."""
    names = ["config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "target_vocab.json"]
    paths = [folder / name for name in (*names, "source.spm", "target.spm", weights.name)]
    return {path.name: sha256(path) for path in paths if path.is_file()}
