"""Paths that are wrong are told before TensorFlow is loaded."""

import json
import os
import re
from pathlib import Path

import pytest

from qkv.commands.command_paths import check_config_paths
from qkv.config.yaml import dump_yaml
from qkv.errors import InputError
from qkv.files.paths import check_file_to_write, check_text, check_writable, is_pattern, matching_files
from tests.support.processes import run_without
from tests.support.tiny_runs import small_config, small_settings, write_small_corpus

EVERY_COMMAND = """
import contextlib, importlib, io, json, sys
answers = []
for name, *arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = importlib.import_module(f"qkv.commands.{name}").main(arguments)
    answers.append([status, said.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture
def place(tmp_path):
    """Runs without weights, with them, interrupted before the first validation, and with a file in the place of its
    evaluations; a text, and two configs."""
    files = ("begun/config.yaml", "run/config.yaml", "run/model.keras", "interrupted/config.yaml")
    filed = ("filed/config.yaml", "filed/model.keras", "filed/evaluations")
    for file in (*files, "interrupted/checkpoints/passing-00000001.npz", *filed):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "text").write_text("a b\n", encoding="utf-8")
    corpus = write_small_corpus(tmp_path / "corpus")
    for name, changes in {"good": {}, "bad": {"data.validation.target": str(tmp_path / "none.fr")}}.items():
        settings = small_settings(corpus, tmp_path / "text" if name == "good" else tmp_path / "runs", changes)
        (tmp_path / f"{name}.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    return tmp_path


CASES = {
    "train CONFIG": (["train", "--config", "none.yaml"], r"none\.yaml: "),
    "train text": (["train", "--config", "bad.yaml"], r"none\.fr: there is no such file"),
    "train folder": (["train", "--config", "good.yaml"], r"text/good: cannot be created: .*text is a file"),
    "train RUN": (["train", "--resume", "none"], "none: there is no run to resume here"),
    "doctor CONFIG": (["doctor", "none.yaml"], r"none\.yaml: "),
    "doctor text": (["doctor", "bad.yaml"], r"none\.fr: there is no such file"),
    "evaluate RUN": (["evaluate", "none"], "none: no such run"),
    "evaluate weights": (["evaluate", "begun"], r"begun/checkpoints: no weights .* --resume .*begun"),
    "evaluate RUN2": (["evaluate", "run", "none"], "none: no such run"),
    "evaluate weights of RUN2": (["evaluate", "run", "begun"], r"begun/checkpoints: no weights to translate"),
    "evaluate --source": (["evaluate", "run", "--source", "none.en"], r"none\.en: there is no such file"),
    "evaluate --reference": (
        ["evaluate", "run", "--source", "text", "--reference", "run"],
        "run: this is a directory; expected a text file",
    ),
    "evaluate results": (
        ["evaluate", "filed", "--forced"],
        "filed/evaluations: this is a file, in the place of a folder",
    ),
    "translate RUN": (["translate", "text"], "text: no such run"),
    "translate RUN2": (["translate", "run", "run", "text"], "text: no such run"),
    "translate weights": (["translate", "begun", "--checkpoint", "last"], "begun/checkpoints: no weights to translate"),
    "translate before validation": (["translate", "interrupted"], "--resume .*interrupted; or .* --checkpoint last"),
    "export before validation": (["export", "interrupted", "new", "--format", "marian"], "or .* --checkpoint last"),
    "evaluate without checkpoints": (["evaluate", "run", "--checkpoint", "last"], "leave out --checkpoint last"),
    "align REVERSE": (["align", "run", "none", "--source", "text", "--target", "text"], "none: no such run"),
    "align --target": (["align", "run", "--source", "text", "--target", "none.fr"], r"none\.fr: there is no such file"),
    "align --output": (
        ["align", "run", "--source", "text", "--target", "text", "--output", "text/links"],
        r"text/links: cannot be created: .*text is a file",
    ),
    "compare --csv": (
        ["compare", "run", "run", "--csv", "run"],
        "run: this is a directory; expected the name",
    ),
    "compare RUN": (["compare", "none", "run"], "none: no such run"),
    "measure ARCHIVE": (["measure", "none"], "none: no such run"),
    "measure a folder": (["measure", "corpus"], "corpus: neither a run, which has .*nor an attention archive"),
    "measure --choose_on": (["measure", "run", "--choose_on", "corpus"], "corpus: neither a run"),
    "measure --alignments": (["measure", "run", "--alignments", "none.fr"], r"none\.fr: there is no such file"),
    "measure --folder": (["measure", "run", "--folder", "text"], "text: this is a file; expected the name of a folder"),
    "view RUN": (["view", "none"], "none: no such run"),
    "live RUN": (["live", "none", "--page", "page.html"], "none: no such run"),
    "live --page": (["live", "run", "--page", "corpus"], "corpus: this is a directory; expected the name of a file"),
    "live weights": (["live", "begun"], "begun/checkpoints: no weights to translate with yet"),
    "draw RUN": (["draw", "none", "--sentence", "0"], "none: no such run"),
}


def test_every_command_tells_a_wrong_path_without_tensorflow(place):
    names = {path.name for path in place.iterdir()} | {"none", "none.en", "none.fr", "none.yaml", "text/links"}
    commands = [[str(place / word) if word in names else word for word in words] for words, _ in CASES.values()]
    answer = run_without(["tensorflow", "keras"], place / "site", "-c", EVERY_COMMAND, json.dumps(commands))
    assert answer.returncode == 0, answer.stderr
    for (case, (_, pattern)), (status, said) in zip(CASES.items(), json.loads(answer.stdout), strict=True):
        assert status == 2 and re.match("error: ", said) and re.search(pattern, said), f"{case}: {said}"


def test_folders_that_are_missing_will_be_made(tmp_path):
    check_file_to_write(tmp_path / "new" / "newer" / "file.txt")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="has no such devices")
def test_what_a_link_leads_to_and_devices_are_checked_where_they_are(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to("/none/of/these/text.csv")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("none")
    monkeypatch.setattr("os.access", lambda path, mode: path in (tmp_path, Path(os.devnull)))
    check_file_to_write(Path(os.devnull))  # although nothing can be made beside it
    with pytest.raises(InputError, match=r"text\.csv: cannot be created: / is read-only"):
        check_file_to_write(tmp_path / "link")
    with pytest.raises(InputError, match="zero: cannot be written; change its permissions"):
        check_file_to_write(Path("/dev/zero"))
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        check_file_to_write(tmp_path / "loop")
    with pytest.raises(InputError, match="nowhere is a link that leads nowhere; expected a folder"):
        check_file_to_write(tmp_path / "nowhere" / "file")


def test_a_read_only_folder_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(InputError, match="is read-only; change its permissions"):
        check_writable(tmp_path / "new" / "file.txt")


def test_a_text_may_be_a_device():
    check_text(Path(os.devnull))


def test_patterns_of_a_new_run_are_checked_first(tmp_path):
    corpus = write_small_corpus(tmp_path / "corpus")
    for name, source, target, message in (
        ("none", "x*.en", "train.fr", r"x\*\.en: no file matches this pattern"),
        ("unequal", "t*.en", "train.fr", "stands for 2 files and .* stands for 1 file"),
        ("good", "tra*.en", "tra*.fr", None),
    ):
        changes = {"data.train": [{"source": str(corpus / source), "target": str(corpus / target)}], "run.name": name}
        config = small_config(corpus, tmp_path, name, changes)
        if message is None:
            check_config_paths(config)
            continue
        with pytest.raises(InputError, match=message):
            check_config_paths(config)
    cached = small_config(corpus, tmp_path, "cached", {"data.cache": str(corpus / "train.en")})
    with pytest.raises(InputError, match=r"train\.en: this is a file; expected the name of a folder"):
        check_config_paths(cached)


def test_a_pattern_below_a_folder_whose_name_has_brackets_reads_that_folder(tmp_path):
    for folder in ("of[v1]", "ofv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part-1.en").touch()
    own = tmp_path / "of[v1]"
    assert matching_files(own / "part-*.en") == matching_files(own / "part-[12].en") == [own / "part-1.en"]
    assert matching_files(tmp_path / "of[v]" / "part-*.en") == [tmp_path / "ofv" / "part-1.en"]
    assert not is_pattern(own / "missing.en")
