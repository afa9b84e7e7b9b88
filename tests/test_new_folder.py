"""New folders appear whole or not at all, and what a killed process has left of one is deleted by the next."""

import os

import pytest

from pipeline.errors import InputError
from pipeline.file_lock import folder_locked
from pipeline.files import temporary_path
from pipeline.new_folder import new_folder


def test_a_folder_appears_when_the_block_succeeds(tmp_path):
    with new_folder(tmp_path / "new", "writes this folder") as folder:
        (folder / "file").write_text("text")
        assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "file").read_text() == "text"


def test_nothing_is_left_of_a_block_that_fails(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "new", "writes this folder") as folder:
        (folder / "file").touch()
        raise KeyError
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("appeared", [False, True])
def test_what_a_killed_process_has_left_is_deleted_by_the_next(tmp_path, appeared):
    """Killed while it wrote, or after the folder had appeared."""
    (tmp_path / ".new.qkv-lock").write_text("process 1 on a machine")
    hidden = temporary_path(tmp_path / "new")
    hidden.mkdir()
    (hidden / "half").touch()
    if appeared:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "file").touch()
        with pytest.raises(InputError, match="new: exists already"), new_folder(tmp_path / "new", "writes it"):
            pass
    else:
        with new_folder(tmp_path / "new", "writes it") as folder:
            (folder / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "file"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    hidden = temporary_path(tmp_path / "new")
    hidden.mkdir()
    (tmp_path / "new").touch()
    with folder_locked(tmp_path / ".new.qkv-lock", "writes it"):
        (hidden / "half").touch()
        with pytest.raises(InputError, match="exists already"), new_folder(tmp_path / "new", "writes it"):
            pass
        assert (hidden / "half").exists()
        (tmp_path / "new").unlink()
        expected = rf"new: process {os.getpid()} on .* writes it at the moment"
        with pytest.raises(InputError, match=expected), new_folder(tmp_path / "new", "writes it"):
            pass
        assert (hidden / "half").exists()


def test_folders_of_other_people_are_neither_deleted_nor_written_through_a_link(tmp_path):
    home = tmp_path / "home"
    place = tmp_path / "place"
    for folder in (home, place / ".new.unfinished", place / ".new.old"):
        folder.mkdir(parents=True)
        (folder / "precious").touch()
    planted = temporary_path(place / "new")
    planted.symlink_to(home)
    before = {path for path in tmp_path.rglob("*") if path != planted}
    with new_folder(place / "new", "writes it") as folder:
        (folder / "file").touch()
    assert before < set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="exists already"), new_folder(place / "new", "writes it"):
        pass
    assert before < set(tmp_path.rglob("*"))


def test_a_link_in_the_place_of_the_lock_is_refused(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".new.qkv-lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match=r"\.new\.qkv-lock: this is a link"), new_folder(tmp_path / "new", "writes it"):
        pass
    assert (tmp_path / "precious").read_text() == "mine" and not (tmp_path / "new").exists()


def test_a_folder_that_appears_in_between_is_left_alone(tmp_path):
    with pytest.raises(InputError, match="exists already"), new_folder(tmp_path / "new", "writes it"):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "other").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "other"]
