"""An evaluation in parts that are kept as they are finished, so that one that was killed goes on where it was."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras

from pipeline.decoding.translator import Translation, Translator
from pipeline.inspection.archive import ArchiveWriter
from pipeline.inspection.record import Record
from pipeline.inspection.trace import Traced, Tracer
from pipeline.run_directory import sha256, write_json
from pipeline.trained_run import TrainedRun

PART_SENTENCES = 256  # some batches for each core; what is lost at worst takes seconds


def fingerprint(run: TrainedRun, **what: Any) -> str:
    """Says whether an evaluation is the same: a digest of weights, tokenizer, settings and `what` is evaluated."""
    digest = hashlib.sha256(sha256(run.directory.tokenizer).encode())
    for variable in run.model.variables:
        digest.update(keras.ops.convert_to_numpy(variable).tobytes())
    settings = run.config.model_dump(mode="json", include={"model", "decoding", "inspection"})
    digest.update(json.dumps([settings, what], sort_keys=True, default=repr).encode())
    return digest.hexdigest()[:32]


def translate_in_parts(translator: Translator, sentences: Sequence[str], folder: Path) -> list[Translation]:
    """Translates sentences, those of similar length together; parts that are in the folder already are read.

    The folder is that of one evaluation: parts of another text or model must not be in it.
    """
    folder.mkdir(exist_ok=True)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i].split()))
    found: list[Translation | None] = [None] * len(sentences)
    for number, first in enumerate(range(0, len(order), PART_SENTENCES)):
        rows = order[first : first + PART_SENTENCES]
        path = folder / f"translations-{number:05d}.json"
        if path.is_file():
            part = [Translation(**values) for values in json.loads(path.read_text(encoding="utf-8"))]
        else:
            part = translator.translate([sentences[row] for row in rows])
            write_json(path, [asdict(translation) for translation in part])
        for row, translation in zip(rows, part, strict=True):
            found[row] = translation
    return [translation for translation in found if translation is not None]


def archived(archive: ArchiveWriter, tracer: Tracer, pairs: Sequence[Traced]) -> Iterator[Record]:
    """Records of pairs, each in the archive when it is given: those that it kept, then the others, a shard at a time.

    A shard is traced by itself, so that its numbers are the same whether those before it were just traced or kept.
    """
    yield from archive.kept()
    for record in tracer.trace(pairs[archive.sentences :], archive.sentences_per_shard):
        archive.append(record)
        yield record
