"""Paths that a person gives: whether they can be read and written, and what patterns stand for."""

import os
from pathlib import Path

import pytest

from qkv.errors import InputError
from qkv.files.paths import (
    as_path,
    check_file_to_write,
    check_folder_to_write,
    check_path,
    check_text,
    check_writable,
    is_pattern,
    matching_files,
)
from qkv.files.run_directory import RunDirectory
from qkv.inspection import AttentionArchive

IMPOSSIBLE = ["a" * 5000, "a/" * 2600, "a\0b", "a\ud800b"]


@pytest.mark.parametrize("path", IMPOSSIBLE)
@pytest.mark.parametrize(
    "check", [check_path, check_text, check_file_to_write, check_folder_to_write, RunDirectory.open, AttentionArchive]
)
def test_a_path_that_no_file_can_have_is_told_in_one_short_line(check, path):
    with pytest.raises(InputError, match=r"File name too long|no file (or folder )?can have this") as told:
        check(Path(path))
    assert len(str(told.value)) < 200 and str(told.value).isprintable()


def test_a_path_that_is_not_there_is_no_problem_of_its_name(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "file", Path(__file__) / "within", tmp_path / ("ü" * 120)):
        check_path(path)


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o000])
def test_a_read_only_file_is_not_written_also_through_a_link(tmp_path, mode):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        check_file_to_write(tmp_path / name)
    (tmp_path / "file").chmod(mode)
    for name in ("file", "link"):
        with pytest.raises(InputError, match="this file is read-only; change its permissions, or choose another file"):
            check_file_to_write(tmp_path / name)


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


def test_a_pattern_below_a_folder_whose_name_has_brackets_reads_that_folder(tmp_path):
    for folder in ("of[v1]", "ofv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part-1.en").touch()
    own = tmp_path / "of[v1]"
    assert matching_files(own / "part-*.en") == matching_files(own / "part-[12].en") == [own / "part-1.en"]
    assert matching_files(tmp_path / "of[v]" / "part-*.en") == [tmp_path / "ofv" / "part-1.en"]
    assert not is_pattern(own / "missing.en")


def test_a_path_from_python_is_text_or_a_path(tmp_path):
    for value in (str(tmp_path), tmp_path, tmp_path / "nowhere", ""):
        assert as_path(value, "x", "a file") == Path(value)


@pytest.mark.parametrize("value", [5, None, b"a", ["a"], "a\0b", "\ud800", "x" * 5000, "x" * 400_000], ids=repr)
def test_what_is_no_path_is_refused_under_the_name_of_its_argument(value):
    with pytest.raises(InputError, match=r"^x: expected a file, found ") as error:
        as_path(value, "x", "a file")
    assert len(str(error.value)) < 150
