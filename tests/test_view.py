"""One page of several evaluations: which they are, what it is called, and that it overwrites no other."""

import pytest

from pipeline import view
from pipeline.inspection import ArchiveWriter
from tests.inspection.viewer.test_page import embedded, make_record


def write_evaluation(root, name, source="the cat sleeps"):
    root.mkdir(exist_ok=True)
    (root / "config.yaml").touch()
    with ArchiveWriter(root / "evaluations" / name / "attention", manifest={}) as archive:
        archive.append(make_record(0, source, "le chat dort"))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    for run in ("demo", "narrow"):
        for name in ("test", "beam"):
            write_evaluation(tmp_path / run, name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "file", "names"),
    [
        (["demo", "narrow"], "demo_and_narrow_test.html", ["demo", "narrow"]),
        (["demo", "narrow", "--set", "beam"], "demo_and_narrow_beam.html", ["demo", "narrow"]),
        (["demo/evaluations/test", "demo/evaluations/beam"], "demo_test_and_beam.html", ["test", "beam"]),
        (["demo", "narrow/evaluations/beam"], "demo_test_and_narrow_beam.html", ["demo, test", "narrow, beam"]),
    ],
)
def test_runs_and_evaluations_are_shown_under_their_names(runs, capsys, arguments, file, names):
    given = [str(runs / one) if (runs / one).exists() else one for one in arguments]
    assert view.main(given) == 0
    assert capsys.readouterr().out == f"{file}\n"
    page = (runs / "here" / file).read_text(encoding="utf-8")
    assert [run["name"] for run in embedded(page)[0]["runs"]] == names
    assert view.main(given) == 0  # the same page again


def test_no_other_page_or_file_is_overwritten(runs, capsys):
    demo, narrow = str(runs / "demo"), str(runs / "narrow")
    assert view.main([demo, "--output", "page.html"]) == view.main([demo, "--output", "page.html"]) == 0
    page = runs / "here" / "page.html"
    written = page.read_bytes()
    assert str(runs).encode() not in written  # a page that is sent to others does not tell where it was made
    assert view.main([narrow, "--output", "page.html"]) == 2
    assert "page.html: already there, and not the page of these evaluations" in capsys.readouterr().err
    assert page.read_bytes() == written
    page.write_text("my notes", encoding="utf-8")
    assert view.main([demo, "--output", "page.html"]) == 2
    assert page.read_text(encoding="utf-8") == "my notes"
    assert "choose another name with --output, or delete it" in capsys.readouterr().err


def test_evaluations_of_other_sentences_are_refused(runs, capsys):
    write_evaluation(runs / "demo", "mine", "another sentence")
    assert view.main([str(runs / "demo"), str(runs / "demo/evaluations/mine")]) == 2
    assert "have different sentences" in capsys.readouterr().err
    assert not list((runs / "here").iterdir())
