"""The folder of a run while it is trained: created, locked, and deleted again where nothing was trained."""

from types import SimpleNamespace

import pytest

from qkv.errors import InputError
from qkv.files.atomic import write_atomically
from qkv.files.run_directory import RunDirectory
from qkv.files.written import LIST
from qkv.run import training
from qkv.run.training import open_run_folder
from qkv.training.progress import Progress
from tests.support import files_below
from tests.support.failing_files import every_failure
from tests.support.tiny_runs import parsed


def test_a_new_run_that_fails_before_its_first_checkpoint_leaves_no_folder(tmp_path):
    with pytest.raises(KeyError), open_run_folder(tmp_path / "run", None, writes=True) as run:
        run.config.touch()
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_new_run_that_fails_after_a_checkpoint_keeps_its_folder(tmp_path):
    with pytest.raises(KeyError), open_run_folder(tmp_path / "run", None, writes=True) as run:
        run.checkpoints.mkdir()
        (run.checkpoints / "update-00000001.npz").touch()
        raise KeyError
    assert (run.checkpoints / "update-00000001.npz").is_file()


MARK = "0123456789abcdef.qkv-tmp"
EVENTS = "events.out.tfevents.1700000000.host.1.0.v2"


def begin(root, *names):
    """What a training that was killed has left."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def write(run, *names):
    """Writes files as training does: they are listed."""
    with run.written.recording():
        for name in names:
            write_atomically(run.root / name, b"")


OF_OTHERS = [
    "events.out.tfevents.1700000000.other.1.0.v2",
    "events.out.tfevents.1700000000.other.1.0.0123456789abcdef.v2",
    "validation/mine.txt",
    "validation/events.out.tfevents.1.other.1.0.v2",
    "probes/mine.png",
    "probes/update-00000000/mine.txt",
    "checkpoints/mine.npz",
    "encoded/deep/er/mine.npy",
    "notes.txt",
]


def refused(root, message, *, resumed=False):
    with pytest.raises(InputError, match=message), open_run_folder(root, root if resumed else None, writes=True):
        pass


@pytest.mark.parametrize("names", [[], [".lock"], [".lock", f".config.{MARK}.yaml"]])
def test_a_run_that_was_killed_before_it_had_a_config_is_begun_again(names, tmp_path):
    (tmp_path / "run").mkdir()
    begin(tmp_path / "run", *names)
    with open_run_folder(tmp_path / "run", None, writes=True) as run:
        assert [path.name for path in run.root.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["config.yaml", "notes.txt", "tokenizer/sentencepiece.model", EVENTS])
def test_a_folder_with_anything_else_in_it_is_refused_and_not_changed(name, tmp_path):
    begin(tmp_path / "run", name)
    refused(tmp_path / "run", "exists already" if name == "config.yaml" else "expected a new or an empty folder")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [name.split("/")[0]]


def test_a_run_that_another_process_trained_in_between_is_refused_and_kept(tmp_path, monkeypatch):
    run = RunDirectory.create(tmp_path / "run")
    run.config.touch()
    monkeypatch.setattr(RunDirectory, "create", lambda root: RunDirectory(root))
    refused(run.root, "exists already")
    assert run.config.is_file()


def test_half_written_files_of_a_killed_training_are_deleted_and_nobody_elses(tmp_path):
    left = [f".history.{MARK}.csv", f".model.{MARK}.keras", f".manifest.{MARK}.json", f"..preparation.{MARK}.json"]
    left += [f"encoded/.train.{MARK}.npy", f"checkpoints/.best.{MARK}.npz", f"tokenizer/.sentencepiece.{MARK}.model"]
    left += [
        f"probes/update-00000003/.shard-00000.{MARK}.npz",
        f"projector/.subwords.{MARK}.tsv",
        f".projector_config.{MARK}.pbtxt",
        ".preparation.json",
    ]
    others = [".env.template", ".bashrc.20240101", "probes/.npmrc.original", ".history.a1b2c3d4.csv"]
    others += [f"evaluations/.test.host.12.abc/.heads.{MARK}.csv", f".viewer.{MARK}.html", ".DS_Store", "notes.txt"]
    others += ["config.yaml", "corpus_report.json", "checkpoints/best.npz", "probes/.notes", EVENTS]
    begin(tmp_path / "run", *left, *others)
    with open_run_folder(tmp_path / "run", tmp_path / "run", writes=False) as run:
        assert all((run.root / name).exists() for name in left)
    with open_run_folder(tmp_path / "run", tmp_path / "run", writes=True) as run:
        assert files_below(run.root).keys() == {*others, ".lock", LIST}


@pytest.mark.parametrize(
    "name",
    [
        "probes",
        "projector",
        "validation",
        "checkpoints",
        "encoded",
        "probes/update-00000000",
        f"validation/{EVENTS}",
        EVENTS,
        f"{EVENTS}.resumed",
    ],
)
def test_a_link_in_what_training_writes_is_refused_before_anything_is_deleted(name, tmp_path):
    begin(tmp_path / "home", f".notes.{MARK}.txt")
    begin(tmp_path / "run", "config.yaml", f".history.{MARK}.csv")
    (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "home")
    before = set(tmp_path.rglob("*"))
    refused(tmp_path / "run", f"run/{name}: this is a link, and a run is not written through links", resumed=True)
    assert set(tmp_path.rglob("*")) == before


def test_a_run_is_trained_through_a_link_to_its_folder(tmp_path):
    begin(tmp_path / "run", "config.yaml", f".history.{MARK}.csv", "notes.txt")
    (tmp_path / "newest").symlink_to(tmp_path / "run")
    with open_run_folder(tmp_path / "newest", tmp_path / "newest", writes=True) as run:
        assert {path.name for path in run.root.iterdir()} == {"config.yaml", ".lock", "notes.txt"}


@pytest.mark.parametrize("name", ["history.csv", "model.keras", "checkpoints/update-00000002.npz", EVENTS])
def test_a_folder_in_the_place_of_a_file_is_refused_before_training(name, tmp_path):
    begin(tmp_path / "run", "config.yaml")
    (tmp_path / "run" / name).mkdir(parents=True)
    refused(tmp_path / "run", f"run/{name}: this is a folder, in the place of a file", resumed=True)


@pytest.mark.parametrize("name", ["validation", "probes", "tokenizer"])
def test_a_file_in_the_place_of_a_folder_is_refused_before_training(name, tmp_path):
    begin(tmp_path / "run", "config.yaml", name)
    refused(tmp_path / "run", f"run/{name}: this is a file, in the place of a folder", resumed=True)


@pytest.mark.parametrize("name", ["checkpoints", "validation"])
def test_a_folder_that_takes_no_files_is_refused_before_training(name, tmp_path, monkeypatch):
    begin(tmp_path / "run", "config.yaml", f"{name}/file")
    monkeypatch.setattr(
        "os.access", lambda path, mode: str(path).rpartition("/")[2] != name
    )  # root may write everywhere
    refused(tmp_path / "run", f"run/{name}: this folder is read-only", resumed=True)


def test_what_others_have_put_into_a_new_run_stays_when_it_fails(tmp_path):
    begin(tmp_path / "home", "precious")
    with pytest.raises(KeyError), open_run_folder(tmp_path / "run", None, writes=True) as run:
        write(run, "config.yaml", "encoded/train.ids.npy", EVENTS, f"validation/{EVENTS}", "projector/subwords.tsv")
        write(run, "checkpoints/best.npz", "probes/update-00000000/shard-00000.npz", "projector_config.pbtxt")
        begin(run.root, *OF_OTHERS, "my.tfevents", "tensorboard/notes.txt", f"encoded/.train.{MARK}.npy")
        (run.root / "home").symlink_to(tmp_path / "home")
        run.held_out.symlink_to(tmp_path / "home")
        raise KeyError
    assert files_below(run.root).keys() == {*OF_OTHERS, "my.tfevents", "tensorboard/notes.txt"}
    assert (run.root / "home").is_symlink() and run.held_out.is_symlink()
    assert (tmp_path / "home" / "precious").exists()
    refused(run.root, "expected a new or an empty folder, found '.*' in it; choose another name")


def test_events_of_others_stay_when_a_training_without_a_checkpoint_begins_again(tmp_path):
    run = RunDirectory(tmp_path)
    suffixes = [run.written.add_events(folder) for folder in (run.root, run.validation_events)]
    own = [f"events.out.tfevents.1700000000.host.1.0{suffixes[0]}"]
    own += [f"validation/events.out.tfevents.1700000001.host.1.1{suffixes[1]}"]
    begin(tmp_path, *own, *OF_OTHERS)
    run.delete_records()
    assert files_below(tmp_path).keys() == {*OF_OTHERS, LIST}


def test_checkpoints_of_an_older_version_are_listed_when_training_goes_on(tmp_path):
    begin(tmp_path, "config.yaml", "checkpoints/update-00000003.npz", "checkpoints/best.npz", "checkpoints/mine.npz")
    with open_run_folder(tmp_path, tmp_path, writes=True) as run:
        assert run.written.names() == {"checkpoints/update-00000003.npz", "checkpoints/best.npz"}


def test_a_run_whose_deletion_is_killed_has_its_config_until_nothing_else_is_there(tmp_path):
    names = ["config.yaml", "corpus_report.json", "encoded/train.ids.npy", "tokenizer/sentencepiece.model", EVENTS]

    def prepare(folder):
        begin(folder / "run", ".lock")
        write(RunDirectory(folder / "run"), *names)

    for folder in every_failure(tmp_path / "try", prepare, lambda folder: RunDirectory(folder / "run").delete()):
        run = RunDirectory(folder / "run")
        if run.corpus_report.is_file():
            assert all((run.root / name).is_file() for name in names)
        if not run.config.is_file() and run.root.exists():
            run.check_unused()


def test_a_resumed_run_that_fails_keeps_its_folder(tmp_path):
    created = RunDirectory.create(tmp_path / "run")
    created.config.touch()
    with pytest.raises(KeyError), open_run_folder(tmp_path / "other", created.root, writes=True) as run:
        raise KeyError
    assert run.root == created.root and run.config.is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_only_the_worker_that_writes_locks_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.run.training.ROUND_SECONDS", 0)
    run = RunDirectory.create(tmp_path / "run")
    run.config.touch()
    with open_run_folder(run.root, run.root, writes=True):
        with open_run_folder(run.root, run.root, writes=False):
            pass
        refused(run.root, "trains this run", resumed=True)


def test_a_worker_that_writes_nothing_has_a_temporary_folder_for_a_new_run(tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.run.training.ROUND_SECONDS", 0)
    with open_run_folder(tmp_path / "run", None, writes=False) as run:
        assert run.root.is_dir() and run.root.parent != tmp_path
    assert not run.root.exists() and not list(tmp_path.iterdir())


def test_records_of_a_training_without_a_checkpoint_are_deleted_and_prepared_text_is_not(tmp_path):
    begin(tmp_path, "encoded/file", "my.tfevents")
    run = RunDirectory(tmp_path)
    write(run, "corpus_report.json", "encoded/listed", "history.csv", EVENTS, f"{EVENTS}.resumed")
    write(run, f"validation/{EVENTS}", "probes/file")
    run.delete_records()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        LIST,
        "corpus_report.json",
        "file",
        "listed",
        "my.tfevents",
    ]


@pytest.mark.parametrize(("update", "bleu"), [(20, 30.0), (2000, 0.1)], ids=["few updates", "low BLEU"])
def test_advice_at_the_end_is_information_which_a_silent_training_does_not_show(
    config_file, tmp_path, caplog, update, bleu
):
    rows = [{"update": at, "val_bleu": bleu, "val_token_accuracy": 0.9} for at in (10, update)]
    progress = Progress(update=update, history=rows, best_update=update)
    text = SimpleNamespace(validation=SimpleNamespace(target=["un chat dort."] * 200))
    config = parsed(config_file, "--training.warmup_updates", "5")
    with caplog.at_level("INFO"):
        training._report_finished(config, RunDirectory(tmp_path), text, progress)
    advice, results = caplog.records
    assert "few to learn from" in advice.getMessage() or "BLEU" in advice.getMessage()
    assert "results: " in results.getMessage()
    assert {record.levelname for record in caplog.records} == {"INFO"}
