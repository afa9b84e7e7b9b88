"""Pictures of chosen sentences from the command line."""

import re
import shutil

import pytest

from qkv.commands import draw
from qkv.inspection import ArchiveWriter
from tests.support.viewer import make_record


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "run"
    root.mkdir()
    (root / "config.yaml").touch()
    with ArchiveWriter(root / "evaluations" / "test" / "attention", manifest={}) as archive:
        for id_ in range(3):
            archive.append(make_record(id_, "the cat sleeps", "le chat dort bien"))
    return root


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_picture_is_of_the_kind_that_its_suffix_names(run, tmp_path, capsys, suffix):
    path = tmp_path / f"picture{suffix}"
    assert draw.main([str(run), "--sentence", "2", "--layer", "1", "--head", "0", "--output", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n" and path.stat().st_size > 1000


def test_a_link_stays_and_the_picture_that_it_leads_to_is_replaced(run, tmp_path):
    (tmp_path / "old.png").write_bytes(b"old")
    (tmp_path / "link.png").symlink_to("old.png")
    assert draw.main([str(run), "--sentence", "2", "--output", str(tmp_path / "link.png")]) == 0
    assert (tmp_path / "link.png").is_symlink() and (tmp_path / "old.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_named_after_what_it_shows_unless_a_name_is_given(run, capsys):
    for arguments in ([], ["--layer", "1", "--head", "0"], ["--side", "input"]):
        assert draw.main([str(run), "--sentence", "2", *arguments]) == 0
    assert capsys.readouterr().out.split() == [
        "run_test_2_cross_layer_0.png",
        "run_test_2_cross_layer_1_head_0.png",
        "run_test_2_cross_layer_0_input.png",
    ]


def test_runs_of_one_name_do_not_replace_each_others_pictures(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other" / "run")
    assert draw.main([str(run), "--sentence", "2"]) == draw.main([str(run), "--sentence", "2"]) == 0
    picture = tmp_path / "run_test_2_cross_layer_0.png"
    written = picture.read_bytes()
    assert str(tmp_path).encode() not in written
    assert draw.main([str(other), "--sentence", "2"]) == 2
    assert "already there, and not a picture of this evaluation; choose another name" in capsys.readouterr().err
    assert picture.read_bytes() == written
    assert draw.main([str(other), "--sentence", "2", "--output", str(picture)]) == 0  # the user names it
    picture.write_bytes(b"mine")
    assert draw.main([str(run), "--sentence", "2"]) == 2
    assert picture.read_bytes() == b"mine"


def test_an_evaluation_is_drawn_by_its_folder_too(run, capsys):
    (run / "evaluations" / "test").rename(run / "evaluations" / "mine")
    assert draw.main([str(run / "evaluations" / "mine"), "--sentence", "1"]) == 0
    assert capsys.readouterr().out.split() == ["run_mine_1_cross_layer_0.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sentence", "3"], "has 3 sentences, from 0; found 3"),
        (["--sentence", "0", "--layer", "9"], "layers, .* from 0, found layer 9"),
        (["--sentence", "0", "--head", "9"], "found layer 0, head 9"),
        (["--sentence", "0", "--head", "-1"], "argument --head: expected an integer >= 0"),
        (["--sentence", "0", "--site", "decoder"], "expected a site among"),
        (["--sentence", "0", "--output", "x.jpg"], "expected a name that ends in .png"),
        (["--sentence", "0", "--set", "nowhere"], "no attention archive"),
        ([], "required: --sentence; see --help"),
    ],
)
def test_unknown_sentences_layers_and_files_end_with_one_message(run, tmp_path, capsys, arguments, message):
    assert draw.main([str(run), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert re.search(message, error), error
    assert not list(tmp_path.glob("*.png"))


def test_an_archive_without_a_run_is_drawn_under_its_own_name(run, tmp_path, capsys):
    (run / "evaluations" / "test" / "attention").rename(tmp_path / "t5")
    assert draw.main(["t5", "--sentence", "2", "--head", "1"]) == 0
    assert capsys.readouterr().out == "t5_2_cross_layer_0_head_1.png\n"
