"""New folders appear whole or not at all, and what a killed process has left of one is deleted by the next."""

import pytest

from pipeline.errors import InputError
from pipeline.file_lock import folder_locked
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
    hidden = tmp_path / ".new.unfinished"
    hidden.mkdir()
    (hidden / ".lock").touch()
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
    hidden = tmp_path / ".new.unfinished"
    hidden.mkdir()
    (tmp_path / "new").touch()
    with folder_locked(hidden / ".lock", "writes it"):
        (hidden / "half").touch()
        with pytest.raises(InputError, match="exists already"), new_folder(tmp_path / "new", "writes it"):
            pass
        assert (hidden / "half").exists()
        (tmp_path / "new").unlink()
        with pytest.raises(InputError, match="writes it"), new_folder(tmp_path / "new", "writes it"):
            pass
        assert (hidden / "half").exists()
