"""The kinds of files that are fuzzed: each function writes valid ones into a folder, and returns what reads such a one.

Each imports what it needs and no more, since it has a process of its own and TensorFlow takes seconds to load.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support import KEPT_RUNS

ROOT = Path(__file__).parents[2]
KEPT = KEPT_RUNS / "transformer"

Read = Callable[[Path], object]
"""Reads all of what stands in a folder of that kind."""


def demo_lines(name: str) -> bytes:
    """The first lines of a file of the demo corpus."""
    with (ROOT / "data" / "demo" / name).open("rb") as file:
        return b"".join(file.readlines()[:30])


def corpus(folder: Path) -> Read:
    """Two files of parallel text."""
    from qkv.text.corpora.formats import read_parallel_files

    (folder / "a").write_bytes(demo_lines("test.en"))
    (folder / "b").write_bytes(demo_lines("test.fr"))

    def read(folder: Path) -> object:
        pairs = read_parallel_files(folder / "a", folder / "b")
        return list(pairs.source), list(pairs.target)

    return read


def table(folder: Path) -> Read:
    """Parallel text in a table."""
    from qkv.text.corpora.formats import read_corpus_table

    rows = zip(demo_lines("test.en").splitlines(), demo_lines("test.fr").splitlines(), strict=True)
    (folder / "a").write_bytes(b"x\ty\n" + b"".join(b"%s\t%s\n" % row for row in rows))
    return lambda folder: list(read_corpus_table(folder / "a", "x", "y", header=True).target)


def stdin(folder: Path) -> Read:
    """What `qkv.commands.translate` is given."""
    from qkv.text.lines.stream import ArrivingLines

    (folder / "a").write_bytes(demo_lines("test.en"))
    return lambda folder: list(ArrivingLines((folder / "a").open("rb")).windows())


def pharaoh(folder: Path) -> Read:
    """Word alignments."""
    from qkv.text.corpora.word_links import read_pharaoh

    (folder / "a").write_bytes(demo_lines("test.align"))
    return lambda folder: read_pharaoh(folder / "a")


def config(folder: Path) -> Read:
    """A config."""
    from qkv.config import load_run_config

    shutil.copy(ROOT / "configs" / "demo.yaml", folder / "a.yaml")
    return lambda folder: load_run_config(folder / "a.yaml")


def tokenizer(folder: Path) -> Read:
    """A tokenizer, which is used too."""
    from qkv.text.tokens.tokenizer import Tokenizer

    shutil.copy(KEPT / "tokenizer" / "sentencepiece.model", folder / "a")

    def read(folder: Path) -> object:
        found = Tokenizer(folder / "a")
        return found.decode(found.encode(["the cat sleeps ."]))

    return read


def encoded(folder: Path) -> Read:
    """Encoded sentences."""
    from qkv.text.tokens.encoding import EncodedSentences

    EncodedSentences.from_rows([[4, 5], [], [6, 7, 8]]).save(folder / "a")
    return lambda folder: [row.tolist() for row in EncodedSentences.load(folder / "a")]


def translations(folder: Path) -> Read:
    """An evaluation's table of translations."""
    from qkv.decoding.translator import Translation
    from qkv.evaluation.tables import read_translations, write_translations

    found = [Translation(f"w {n}", [4], [5, 3], [-0.5, -0.25], truncated=False) for n in range(5)]
    write_translations(folder / "a", ["a"] * 5, ["b c"] * 5, found, bleu_tokenizer="none")
    return lambda folder: read_translations(folder / "a")


def archive(folder: Path) -> Read:
    """An attention archive."""
    from qkv.inspection.archive import ArchiveWriter, AttentionArchive
    from tests.support.viewer import make_record

    with ArchiveWriter(folder / "attention", manifest={}, sentences_per_shard=2) as writer:
        for id_ in range(5):
            writer.append(make_record(id_, "the cat sleeps", "le chat dort bien"))

    def read(folder: Path) -> object:
        found = AttentionArchive(folder / "attention")
        try:
            return [found.to_frame(), *found]
        finally:
            found.close()

    return read


def run(folder: Path) -> Read:
    """A trained run."""
    from qkv.run.trained_run import load_run

    shutil.copytree(KEPT, folder, dirs_exist_ok=True)
    (folder / "expected.json").unlink()
    return load_run


def weights(folder: Path) -> Read:
    """A run's weight file, read into a model that is there."""
    from qkv.config import load_run_config
    from qkv.model.build import build_model
    from qkv.run.weights import check_weights_file, load_weights
    from qkv.text.tokens.tokenizer import Tokenizer

    tokenizer = Tokenizer(KEPT / "tokenizer" / "sentencepiece.model")
    model = build_model(load_run_config(KEPT / "config.yaml").model, tokenizer.vocabulary_size)
    shutil.copy(KEPT / "model.keras", folder / "model.keras")

    def read(folder: Path) -> object:
        check_weights_file(folder / "model.keras", 100)
        return load_weights(model, folder / "model.keras")

    return read


def manifest(folder: Path) -> Read:
    """The manifest of a run, with a model that is there."""
    from qkv.files.run_directory import RunDirectory
    from qkv.run.manifest import check_golden
    from qkv.run.trained_run import load_run

    run = load_run(KEPT)
    shutil.copy(KEPT / "manifest.json", folder / "manifest.json")
    return lambda folder: check_golden(RunDirectory(folder), run.model, run.tokenizer.vocabulary_size)


def style(folder: Path) -> Read:
    """What the source text of a run looks like, and a typed sentence that is made to look so."""
    from qkv.text.lines.style import TextStyle
    from qkv.text.lines.typed_line import Normalizer
    from tests.support.text import measure_look

    measure_look(demo_lines("test.en").decode().splitlines(), tokenized=True).write(folder / "source_look.json")

    def read(folder: Path) -> object:
        found = TextStyle.read(folder / "source_look.json")
        return found and Normalizer(found, True, lambda text: text.replace(".", " ."))("The cat sleeps.")

    return read


def given_words(folder: Path) -> Read:
    """The tokenised copy of a text."""
    from qkv.alignment.aligned_text import read_given_words

    lines = demo_lines("test.en").decode().splitlines()
    (folder / "a").write_bytes(demo_lines("test.en"))
    return lambda folder: read_given_words(folder / "a", lines)


def evaluation(folder: Path) -> Read:
    """An evaluation of a run, as `qkv.commands.compare` reads it."""
    import json

    from qkv.evaluation.systems import find_system

    shutil.copy(KEPT / "config.yaml", folder / "config.yaml")
    shutil.copy(KEPT / "manifest.json", folder / "manifest.json")
    results = folder / "evaluations" / "test"
    results.mkdir(parents=True)
    translations(results)
    (results / "a").rename(results / "translations.tsv")
    metrics = {"bleu": 12.5, "loss": 2.5, "sentences": 5, "mode": "translated"}
    (results / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")

    def read(folder: Path) -> object:
        found = find_system(folder, "test")
        return found.table, found.bleu_tokenizer, found.facts(), found.key_without_seed()

    return read


def checkpoint(folder: Path) -> Read:
    """A checkpoint of that run's model."""
    import keras

    from qkv.run.trained_run import load_run
    from qkv.run.weights import check_weights_file
    from qkv.training.checkpoints import load_checkpoint, save_checkpoint
    from qkv.training.progress import Progress

    model = load_run(KEPT).model
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    save_checkpoint(
        folder / "a.npz",
        model,
        optimizer,
        Progress(1, history=[{"update": 1, "val_bleu": 0.5}], best_metric=0.5, best_update=1),
    )
    return lambda folder: [
        check_weights_file(folder / "a.npz", 100),
        load_checkpoint(folder / "a.npz", model, optimizer),
    ]


def prepared(folder: Path) -> Read:
    """The text of a run that was prepared: two sets that were held out, encoded pairs, reports."""
    from qkv.config.run import make_run_config
    from qkv.files.json import read_json_if_whole, write_json
    from qkv.files.run_directory import RunDirectory
    from qkv.text.prepare import prepare_text
    from qkv.text.training_text import load_text
    from tests.support.tiny_runs import small_settings, write_small_corpus

    values = small_settings(write_small_corpus(folder / "text"), folder)
    values["data"] |= {"validation": {"pairs": 10}, "test": {"pairs": 10}}
    config, run = make_run_config(values, {}, default_name="a"), RunDirectory(folder / "run")
    run.root.mkdir()
    prepare_text(config, run)
    write_json(run.preparation, {"a": "0" * 64})

    def read(folder: Path) -> object:
        read_json_if_whole(run.preparation)
        text = load_text(config, run)
        return [list(side) for pairs in (*text.segmentations, text.validation_pairs) for side in pairs.sides]

    return read


def unfinished(folder: Path) -> Read:
    """An evaluation that was interrupted: a chunk of translations, and an archive without its last shard."""
    from types import SimpleNamespace

    from qkv.decoding.translator import Translation
    from qkv.evaluation.request import EvaluationSet, TokenisedSet
    from qkv.evaluation.resumable import translate_resumably
    from qkv.inspection.archive import ArchiveWriter, AttentionArchive
    from qkv.text.tokens.encoding import EncodedSentences
    from tests.support.viewer import make_record

    texts = demo_lines("test.en").decode().splitlines()[:5]
    tokens = EncodedSentences.from_rows([[4, 5]] * 5)
    translator = SimpleNamespace(
        tokenizer=SimpleNamespace(vocabulary_size=9),
        batch_sentences=2,
        translate_ids=lambda ids, *_: [[Translation("b c", [4], [5, 3], [-0.5, -0.25], truncated=False)] for _ in ids],
    )

    def go_on(end: int) -> object:
        found = translate_resumably(translator, TokenisedSet(EvaluationSet("test", texts), tokens, None), folder)
        archive = ArchiveWriter(folder / "attention", manifest={}, sentences_per_shard=2, go_on=True)
        for id_ in range(len(archive.ids), end):
            archive.append(make_record(id_, "the cat sleeps", "le chat dort bien"))
        return found, archive

    def read(_: Path) -> object:
        found, archive = go_on(5)
        archive.close()
        whole = AttentionArchive(folder / "attention")
        try:
            return found, list(whole)
        finally:
            whole.close()

    go_on(4)
    return read


KINDS: dict[str, Callable[[Path], Read]] = {
    kind.__name__: kind
    for kind in (
        *(corpus, table, stdin, pharaoh, given_words, config, tokenizer, encoded, style),
        *(translations, evaluation, archive, manifest, weights, checkpoint, run, prepared, unfinished),
    )
}
