"""Archives, evaluations, checkpoints and runs from others: each file that lies is refused in one line that names it."""

import json
import os
import re
import shutil
import zipfile
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.commands import compare, draw, view
from qkv.config.run import dump, load_started_run
from qkv.errors import InputError
from qkv.files.run_directory import MADE_BY, RunDirectory
from qkv.inspection import ArchiveWriter
from qkv.inspection import archive as archive_format
from qkv.run.manifest import check_digests
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences
from qkv.training.batches import TrainingBatches
from qkv.training.checkpoints import Checkpoints, load_checkpoint, save_checkpoint
from qkv.training.progress import Progress
from qkv.version import __version__
from tests.support import KEPT_RUNS, change_json
from tests.support.tiny_models import MODELS, make_model
from tests.support.tiny_runs import small_config
from tests.support.viewer import make_record

KEPT = KEPT_RUNS / "transformer"
DEEP = "[" * 200_000
WRONG = [None, True, -1, 1.5, 1e999, 10**30, "", "x", "\0", [], [[]], ["x"], [-1], [None], {}, {"x": {}}]


ROW = np.array([3, 4, 5, 6], np.int32)


def write_evaluation(root):
    """A run with the attention archive, scores and translations of one sentence."""
    root.mkdir()
    (root / "config.yaml").write_text(dump(small_config(root / "no_text", root.parent, root.name)), encoding="utf-8")
    evaluation = RunDirectory(root).evaluation("test")
    with ArchiveWriter(evaluation.attention, manifest={}) as archive:
        archive.append(make_record(0, "the cat sleeps", "le chat dort"))
    metrics = {"search": "beam", "decoding": {"beam_size": 5}, "loss": 1.5, "alignment": {"aer": 3.5}, "mode": "forced"}
    evaluation.metrics.write_text(json.dumps(metrics), encoding="utf-8")
    evaluation.translations.write_text(
        "id\tsource\treference\ttranslation\tsentence_bleu\n0\tthe cat sleeps\tle chat dort\tle chat dort\t100.0\n",
        encoding="utf-8",
    )
    (root / "history.csv").write_text("update,minutes\n5,1.5\n", encoding="utf-8")
    (root / "manifest.json").write_text('{"parameters": 12, "data_sha256": {}}', encoding="utf-8")
    return root


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_evaluation(tmp_path / "run")


def refusal(command, arguments, capsys):
    """The exit status of a command, and the one line that it says."""
    status = command.main([str(argument) for argument in arguments])
    said = capsys.readouterr().err
    assert said.count("\n") == (status != 0), said
    return status, said


def attention(run):
    return run / "evaluations" / "test" / "attention"


def change_line(run, **fields):
    path = attention(run) / "sentences.jsonl"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields) + "\n", encoding="utf-8")


def change_manifest(run, **fields):
    change_json(attention(run) / "manifest.json", **fields)


def change_weights(run, change, save=np.savez):
    path = attention(run) / "shard-00000.npz"
    with np.load(path) as shard:
        arrays = dict(shard)
    arrays["cross/000000"] = change(arrays["cross/000000"])
    save(path, **arrays)


def with_one(weights, value):
    weights = weights.copy()
    weights.flat[0] = value
    return weights


def claim(header, data=b""):
    """An array in NumPy's format with a header of one's own."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def npy(shape, descr="<f4", order=False):
    return claim(f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")


def members(run, content, compression=zipfile.ZIP_STORED, repeat=1, name="cross/000000.npy"):
    with zipfile.ZipFile(attention(run) / "shard-00000.npz", "w", compression) as shard:
        for _ in range(repeat):
            shard.writestr(name, content)


def write(run, name, content):
    (attention(run) / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def sparse(run, name, size=1 << 40):
    with (attention(run) / name).open("wb") as file:
        file.truncate(size)


def encrypted(run):
    path = attention(run) / "shard-00000.npz"
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)


def instead(run, name, make):
    (attention(run) / name).unlink()
    make(attention(run) / name)


SHARD = "shard-00000.npz.*cannot read sentence 0"
LINE = "sentences.jsonl:1: damaged attention archive"
MANIFEST = "manifest.json: damaged attention archive"
ARCHIVES = {
    "weights not a number": (lambda run: change_weights(run, lambda w: with_one(w, np.nan)), SHARD),
    "weights infinite": (lambda run: change_weights(run, lambda w: with_one(w, np.inf)), SHARD),
    "weights negative": (lambda run: change_weights(run, lambda w: with_one(w, -0.5)), SHARD),
    "weights above one": (lambda run: change_weights(run, lambda w: 10 * w), SHARD),
    "weights whole numbers": (lambda run: change_weights(run, lambda w: w.astype("int32")), "of type int32"),
    "weights with fields": (lambda run: change_weights(run, lambda w: w.view([("a", "f4")])), "of type .*'a'"),
    "weights objects": (lambda run: change_weights(run, lambda w: w.astype(object)), SHARD),
    "weights of another shape": (lambda run: change_weights(run, lambda w: w.swapaxes(2, 3)), "is of shape .*expected"),
    "weights of no axes": (lambda run: change_weights(run, lambda w: w[0, 0, 0, 0]), r"is of shape \(\).*expected"),
    "1e15 numbers": (lambda run: members(run, npy("(1000000000000000,)")), "says that it is of shape"),
    "more than 64 bits": (lambda run: members(run, npy(f"({10**40},)")), "says that it is of shape"),
    "negative axes": (lambda run: members(run, npy("(-2, -3)") + bytes(24)), "says that it is of shape"),
    "one byte too many": (lambda run: members(run, npy("(1,)") + bytes(5)), "says that it is of shape"),
    "header without end": (lambda run: members(run, claim("{" * 110)), "damaged header|cannot read"),
    "header of operators": (lambda run: members(run, claim("-" * 110 + "1")), "damaged header|cannot read"),
    "header of names": (lambda run: members(run, claim("__import__('os').abort()")), SHARD),
    "header longer than the file": (lambda run: members(run, b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), SHARD),
    "version 9": (lambda run: members(run, b"\x93NUMPY\x09\x09\x10\x00" + bytes(16)), SHARD),
    "a pickle": (lambda run: members(run, b"\x80\x04cos\nsystem\n(S'true'\ntR."), SHARD),
    "an empty array": (lambda run: members(run, b""), SHARD),
    "a bomb": (lambda run: members(run, bytes(50_000_000), zipfile.ZIP_DEFLATED), "would unpack to 50,000,000 bytes"),
    "compressed by LZMA": (lambda run: members(run, npy("(1,)"), zipfile.ZIP_LZMA), "compressed in another way"),
    "encrypted": (encrypted, "encrypted"),
    "array of another name": (lambda run: members(run, npy("(1,)"), name="../../x.npy"), SHARD),
    "shard of zeros": (lambda run: sparse(run, "shard-00000.npz", 1 << 20), SHARD),
    "shard is a folder": (lambda run: instead(run, "shard-00000.npz", Path.mkdir), SHARD),
    "shard is a FIFO": (lambda run: instead(run, "shard-00000.npz", os.mkfifo), "not a file"),
    "manifest is a FIFO": (lambda run: instead(run, "manifest.json", os.mkfifo), "unfinished"),
    "sentences are a FIFO": (lambda run: instead(run, "sentences.jsonl", os.mkfifo), "sentences.jsonl"),
    "sentence deeply nested": (lambda run: write(run, "sentences.jsonl", DEEP), LINE),
    "manifest deeply nested": (lambda run: write(run, "manifest.json", DEEP), "nests too deeply"),
    "manifest of a terabyte": (lambda run: sparse(run, "manifest.json"), "expected a file of at most"),
    "sentences of a terabyte": (lambda run: sparse(run, "sentences.jsonl"), LINE),
    "manifest in Latin-1": (lambda run: write(run, "manifest.json", b'{"x": "\xe9"}'), MANIFEST),
    "manifest a number of 5,000 digits": (lambda run: write(run, "manifest.json", "9" * 5000), MANIFEST),
    "manifest counts true": (lambda run: change_manifest(run, sentences=True), MANIFEST),
    "manifest counts more": (lambda run: change_manifest(run, sentences=2), "expected 2 sentences, as in manifest"),
    "manifest is a newer one's": (lambda run: change_manifest(run, format_version=2), "this version of qkv reads 1"),
    "manifest is of no version": (lambda run: change_manifest(run, format_version=[1]), "this version of qkv reads 1"),
    "sites of another name": (lambda run: change_manifest(run, sites={"memory": [1, 1]}), MANIFEST),
    "sites without numbers": (lambda run: change_manifest(run, sites={"cross": ["2", "2"]}), MANIFEST),
    "sites of many layers": (lambda run: change_manifest(run, sites={"cross": [10**9, 10**9]}), "of shape .*expected"),
    "no sites": (lambda run: change_manifest(run, sites={}), "expected the site 'cross'"),
    "words negative": (lambda run: change_line(run, source_words=[-1, 1, 2, 2, None]), LINE),
    "words huge": (lambda run: change_line(run, source_words=[0, 1, 10**9, 2, None]), LINE),
    "words fractions": (lambda run: change_line(run, target_words=[0, 0.5, 1, None]), LINE),
    "words true": (lambda run: change_line(run, target_words=[True, 1, 1, None]), LINE),
    "id negative": (lambda run: change_line(run, id=-1), LINE),
    "id a text": (lambda run: change_line(run, id="0"), LINE),
    "tokens a text": (lambda run: change_line(run, source_tokens="abcde"), LINE),
    "half a character": (lambda run: change_line(run, source="\ud800"), LINE),
    "log-probability not a number": (lambda run: change_line(run, token_log_probabilities=[float("nan")] * 4), LINE),
    "log-probability positive": (lambda run: change_line(run, token_log_probabilities=[3] * 4), LINE),
    "log-probability of 400 digits": (lambda run: change_line(run, token_log_probabilities=[-(10**400)] * 4), LINE),
    "log-probabilities missing": (lambda run: change_line(run, token_log_probabilities=[-1]), SHARD),
    "unit of words a list": (lambda run: change_line(run, source_unit=["spaces"]), LINE),
    "mode unknown": (lambda run: change_line(run, mode="sampled"), SHARD),
    "shard elsewhere": (lambda run: change_line(run, shard="../../../shard-00000.npz"), LINE),
    "shard with a line break": (lambda run: change_line(run, shard="shard-00000.npz\n"), LINE),
    "shard missing": (lambda run: change_line(run, shard="shard-99999.npz"), "shard-99999.npz"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_that_lies_is_refused(run, capsys, case):
    change, message = ARCHIVES[case]
    change(run)
    status, said = refusal(view, [run, "--output", "page.html"], capsys)
    assert status == 2
    assert re.search(message, said), said
    assert refusal(draw, [run, "--sentence", "0", "--output", "a.svg"], capsys)[0] == 2
    assert not [path for path in run.parent.iterdir() if path != run]


@pytest.mark.parametrize("field", ["shard", *archive_format.METADATA, *archive_format.OPTIONAL])
def test_a_field_of_a_wrong_type_is_shown_or_refused(run, capsys, field):
    """No value of any type ends a command with a traceback."""
    path = attention(run) / "sentences.jsonl"
    line = json.loads(path.read_text(encoding="utf-8"))
    for value in WRONG:
        path.write_text(json.dumps(line | {field: value}) + "\n", encoding="utf-8")
        assert refusal(view, [run, "--output", "page.html"], capsys)[0] in (0, 2)
        assert refusal(draw, [run, "--sentence", "0", "--output", "a.svg"], capsys)[0] in (0, 2)


@pytest.mark.parametrize("field", ["format_version", "sentences", "shards", "sites", "complete"])
def test_a_fact_of_a_wrong_type_in_an_archives_manifest_is_shown_or_refused(run, capsys, field):
    path = attention(run) / "manifest.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    for value in [*WRONG, {"cross": 1}, {"cross": [1]}, {"cross": [None, 2]}, {"cross": [1e999, 2]}]:
        path.write_text(json.dumps(facts | {field: value}), encoding="utf-8")
        assert refusal(view, [run, "--output", "page.html"], capsys)[0] in (0, 2)


def table(run, text):
    (run / "evaluations" / "test" / "translations.tsv").write_bytes(text.encode("utf-8", "surrogateescape"))


def metrics(run, **fields):
    change_json(run / "evaluations" / "test" / "metrics.json", **fields)


HEADER = "id\tsource\treference\ttranslation\tsentence_bleu\n"
EVALUATIONS = {
    "metrics deeply nested": (lambda run: (run / "evaluations/test/metrics.json").write_text(DEEP), "nests too deeply"),
    "metrics a list": (lambda run: (run / "evaluations/test/metrics.json").write_text("[]"), "expected an object"),
    "decoding a list": (lambda run: metrics(run, decoding=[1]), "decoding cannot be"),
    "beam a text": (lambda run: metrics(run, decoding={"beam_size": "5"}), "decoding.beam_size cannot be"),
    "penalty a text": (lambda run: metrics(run, decoding={"beam_size": 5, "length_penalty": "x"}), "length_penalty"),
    "alignment a number": (lambda run: metrics(run, alignment=3), "alignment cannot be '3'"),
    "error rate a text": (lambda run: metrics(run, alignment={"aer": "low"}), "alignment.aer cannot be 'low'"),
    "loss a text": (lambda run: metrics(run, loss="low"), "loss cannot be 'low'"),
    "loss of 400 digits": (lambda run: metrics(run, loss=10**400), "loss cannot be"),
    "search null": (lambda run: metrics(run, search=None), "search cannot be 'None'"),
    "checkpoint a number": (lambda run: metrics(run, checkpoint=5), "checkpoint cannot be '5'"),
    "tokenizer a list": (lambda run: metrics(run, bleu_tokenizer=["13a"]), "bleu_tokenizer cannot be"),
    "tokenizer unknown": (lambda run: metrics(run, bleu_tokenizer="spaces"), "spaces"),
    "mode a number": (lambda run: metrics(run, mode=4), "mode cannot be '4'"),
    "members a number": (lambda run: metrics(run, members=3), "members cannot be '3'"),
    "a member of 400 digits": (lambda run: metrics(run, members=[{"parameters": 10**400}]), r"members\S* cannot be"),
    "parameters a text": (lambda run: change_json(run / "manifest.json", parameters="many"), "parameters cannot be"),
    "digests a text": (lambda run: change_json(run / "manifest.json", data_sha256="a"), "data_sha256 cannot be"),
    "manifest deeply nested": (lambda run: (run / "manifest.json").write_text(DEEP), "nests too deeply"),
    "history of text": (lambda run: (run / "history.csv").write_text("update\nx\n"), "not the table that train"),
    "short line": (lambda run: table(run, f"{HEADER}0\ta b\n"), "not the table"),
    "long lines": (lambda run: table(run, f"{HEADER}0\ta\tb\tc\t5\t6\n"), "lines of other lengths"),
    "score a text": (lambda run: table(run, f"{HEADER}0\ta\tb\tc\tgood\n"), "not the table"),
    "score not a number": (lambda run: table(run, f"{HEADER}0\ta\tb\tc\tnan\n"), "scores that are no numbers"),
    "no translations": (lambda run: table(run, "id\tsource\treference\n0\ta\tb\n"), "no column 'translation'"),
    "no references": (lambda run: table(run, "id\tsource\ttranslation\n0\ta\tb\n"), "no column 'reference'"),
    "empty table": (lambda run: table(run, ""), "not the table"),
    "table in Latin-1": (lambda run: table(run, f"{HEADER}0\t\udce9\tb\tc\t5\n"), "not the table"),
}  # fmt: skip


@pytest.mark.parametrize("case", EVALUATIONS)
def test_an_evaluation_that_lies_is_refused(run, capsys, case):
    change, message = EVALUATIONS[case]
    other = Path(shutil.copytree(run, run.parent / "other"))
    change(run)
    status, said = refusal(compare, [other, run], capsys)
    assert status == 2
    assert re.search(message, said), said


@pytest.mark.parametrize("key", ["search", "decoding", "loss", "alignment", "mode", "checkpoint", "bleu_tokenizer"])
def test_a_score_of_a_wrong_type_is_compared_or_refused(run, capsys, key):
    other = Path(shutil.copytree(run, run.parent / "other"))
    for value in [*WRONG, {"aer": True}, {"beam_size": None}, {"length_penalty": 1e308}]:
        metrics(run, **{key: value})
        assert refusal(compare, [other, run], capsys)[0] in (0, 2), value


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint, and the model that it is of."""
    architecture, settings = MODELS["transformer"]
    model, path = make_model(architecture, **settings), tmp_path_factory.mktemp("run") / "update-00000007.npz"
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    progress = Progress(
        update=7, epoch=1, batch=2, history=[{"update": 7, "val_loss": 1.0}], best_metric=1.0, best_update=7
    )
    save_checkpoint(path, model, optimizer, progress)
    return path, model, optimizer


def changed_checkpoint(path, folder, change):
    """The checkpoint with other arrays."""
    with np.load(path) as stored:
        arrays = dict(stored)
    change(arrays)
    np.savez(folder / path.name, **arrays)
    return folder / path.name


def progressed(**fields):
    def change(arrays):
        values = json.loads(str(arrays["progress"])) | fields
        arrays["progress"] = np.array(json.dumps(values))

    return change


def weight(change):
    def change_first(arrays):
        name = next(name for name in arrays if name.startswith("model/") and arrays[name].dtype.kind == "f")
        arrays[name] = change(arrays[name])

    return change_first


CHECKPOINTS = {
    "weights not a number": (weight(lambda w: with_one(w, np.nan)), "not finite"),
    "weights infinite": (weight(lambda w: with_one(w, -np.inf)), "not finite"),
    "weights whole numbers": (weight(lambda w: w.astype("int64")), "expected floating-point numbers"),
    "weights transposed": (weight(lambda w: w.T), "of another model"),
    "progress a number": (lambda a: a.update(progress=np.array(5)), "expected text"),
    "progress two texts": (lambda a: a.update(progress=np.array(["{}", "{}"])), "expected .*shape|is of shape"),
    "progress deeply nested": (lambda a: a.update(progress=np.array(DEEP)), "recursion limit exceeded"),
    "progress a list": (lambda a: a.update(progress=np.array("[]")), "should be an object"),
    "progress of a later version": (progressed(stage=3), "damaged"),
    "update negative": (progressed(update=-1), "not valid: update"),
    "update true": (progressed(update=True), "not valid: update"),
    "update of another name": (progressed(update=9), "not of the update in its name"),
    "update beyond 31 bits": (progressed(update=1 << 31), "not valid: update"),
    "epoch beyond the updates": (progressed(epoch=10**9), "not valid: epoch"),
    "batch a fraction": (progressed(batch=1.5), "not valid: batch"),
    "seconds not a number": (progressed(seconds=float("nan")), "not valid: seconds"),
    "seconds negative": (progressed(seconds=-5), "not valid: seconds"),
    "best update never": (progressed(best_update=3), "not valid: best_update"),
    "best metric null": (progressed(best_metric=None), "not valid: best_metric: None"),
    "best metric without a validation": (progressed(history=[], best_update=None), "not valid: best_metric"),
    "best metric a text": (progressed(best_metric="x"), "not valid: best_metric"),
    "history without updates": (progressed(history=[{"val_loss": 1}]), "not valid: history"),
    "history of the future": (progressed(history=[{"update": 8}], best_update=8), "not valid: history"),
    "history without end": (progressed(history=[{"update": 1e999}, {"update": 7}]), "not valid: history"),
    "history of text": (progressed(history=[{"update": 7, "val_loss": "low"}]), "not valid: history"),
    "unread of two": (progressed(unread=[[1, 2]]), "not valid: unread"),
    "last logs a list": (progressed(last_logs=[]), "not valid: last_logs"),
    "total a text": (progressed(total_updates="9"), "not valid: total_updates"),
    "origin a list": (progressed(origin=["1"]), "not valid: origin"),
    "another seed": (progressed(origin={"seed": "2"}), "of another run, with another seed"),
    "another tokenizer": (progressed(origin={"tokenizer": "b", "training text": "b"}), "training text and tokenizer"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_a_checkpoint_that_lies_is_refused(checkpoint, tmp_path, case):
    path, model, optimizer = checkpoint
    change, message = CHECKPOINTS[case]
    before = keras.ops.convert_to_numpy(model.variables[0])
    lying = changed_checkpoint(path, tmp_path, change)
    origin = {"seed": "1", "training text": "a", "tokenizer": "a"}
    with pytest.raises(InputError, match=f"update-00000007.npz: .*{message}"):
        load_checkpoint(lying, model, optimizer, origin)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model.variables[0]), before)


@pytest.mark.parametrize("key", asdict(Progress()))
def test_progress_of_a_wrong_type_is_read_or_refused(key):
    for value in [*WRONG, [{}], [[1]], {"update": "x"}]:
        try:
            Progress.parse(json.dumps({key: value}))
        except (TypeError, ValueError):
            continue
        assert Progress.parse(json.dumps({key: value})) == Progress(**{key: value})


def test_a_checkpoint_keeps_of_which_run_it_is(checkpoint, tmp_path):
    _, model, optimizer = checkpoint
    Checkpoints(tmp_path, origin={"seed": "1"}).save_interim(model, optimizer, Progress(update=3))
    assert Checkpoints(tmp_path, origin={"seed": "1"}).restore(model, optimizer).origin == {"seed": "1"}
    with pytest.raises(InputError, match="of another run, with another seed"):
        Checkpoints(tmp_path, origin={"seed": "2"}).restore(model, optimizer)


@pytest.mark.parametrize(("epoch", "batch"), [(0, 2), (5, 10**9), (10**9, 1)])
def test_a_batch_that_no_epoch_has_is_refused(epoch, batch):
    """Training would look for it for ever."""
    side = EncodedSentences.from_rows([ROW, ROW])
    sizes = {"batch_tokens": 100, "length_multiple": 1, "seed": 1}
    batches = TrainingBatches([EncodedPairs(side, side)], tf.distribute.get_strategy(), **sizes)
    assert len(list(batches.epoch(5))) == 1
    with pytest.raises(InputError, match=f"after {batch:,} batches of an epoch, which has"):
        batches.epoch(epoch, batch)


@pytest.fixture
def kept(tmp_path):
    return Path(shutil.copytree(KEPT, tmp_path / "run"))


@pytest.mark.parametrize("content", ["", "[]", "{", DEEP, "null", '"x"', '{"model_sha256": []}'])
def test_a_manifest_that_lies_is_refused(kept, content):
    run = RunDirectory(kept)
    run.manifest.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"manifest.json|model_sha256"):
        check_digests(run, "model")


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("9.0.0", "upgrade qkv"),
        ("0.999.0", "upgrade qkv"),
        ("0.1.0", "reads no runs from before 0.2; train again, or use qkv 0.1.0"),
        ("1", None),
        ("99999999999.1", None),
        ("x", None),
    ],
)
def test_a_run_of_another_version_is_refused_by_name(kept, version, told):
    config, manifest = kept / "config.yaml", kept / "manifest.json"
    in_config, in_manifest = f"# made by qkv {version}\nunknown: 1\n", json.dumps({"versions": {"qkv": version}})
    current = json.dumps({"versions": {"qkv": __version__}})
    for text, facts in ((in_config, current), ("unknown: 1\n", in_manifest), (in_config, None)):
        config.write_text(text, encoding="utf-8")
        manifest.unlink(missing_ok=True)
        if facts is not None:
            manifest.write_text(facts, encoding="utf-8")
        if told:
            for read in (RunDirectory.open, lambda root: load_started_run(root / "config.yaml")):
                with pytest.raises(InputError, match=f"run: made by qkv {version}, and this is qkv .*{told}"):
                    read(kept)
        else:
            RunDirectory.open(kept)
    config.write_text(MADE_BY + "unknown: 1\n", encoding="utf-8")
    RunDirectory.open(kept)


@pytest.mark.parametrize(
    "data", [npy("(1000000000000000,)", "<i4"), npy("(-1,)", "<i4"), npy("(1, 1)", "<i4") + bytes(4), npy("(1,)"), b""]
)
@pytest.mark.parametrize("name", ["ids", "starts"])
def test_an_encoded_array_that_claims_more_than_it_holds_is_refused(tmp_path, name, data):
    EncodedSentences.from_rows([ROW]).save(tmp_path / "a")
    (tmp_path / f"a.{name}.npy").write_bytes(data)
    with pytest.raises(InputError, match="a: the encoded text is missing or damaged"):
        EncodedSentences.load(tmp_path / "a")
