"""One page of several evaluations: which they are, what it is called, and that it overwrites no other."""

import pytest

from qkv.commands import view
from qkv.inspection import ArchiveWriter
from tests.support.processes import read_pipe
from tests.support.tiny_runs import MINIMAL
from tests.support.viewer import embedded, in_english, make_record


def write_archive(folder, source="the cat sleeps", sentences=1):
    with ArchiveWriter(folder, manifest={}) as archive:
        for number in range(sentences):
            archive.append(make_record(number, source, "le chat dort"))


def write_evaluation(root, name, **text):
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.yaml").touch()
    write_archive(root / "evaluations" / name / "attention", **text)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    for run in ("demo", "narrow"):
        for name in ("test", "beam"):
            write_evaluation(tmp_path / run, name)
    for folder in ("t5", "bart", "x/t5", "moved/attention"):
        write_archive(tmp_path / folder)
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
        (["t5"], "t5.html", ["t5"]),
        (["t5", "bart"], "t5_and_bart.html", ["t5", "bart"]),
        (["t5", "x/t5"], "FOLDER_t5_and_x_t5.html", ["FOLDER t5", "x t5"]),
        (["demo", "t5"], "demo_test_and_t5.html", ["demo, test", "t5"]),
        (["moved", "demo/evaluations/test/attention"], "moved_and_attention.html", ["moved", "attention"]),
    ],
)
def test_runs_evaluations_and_archives_are_shown_under_their_names(runs, capsys, arguments, file, names):
    given = [str(runs / one) if (runs / one).exists() else one for one in arguments]
    file, *names = (text.replace("FOLDER", runs.name) for text in (file, *names))
    assert view.main(given) == 0
    assert capsys.readouterr().out == f"{file}\n"
    page = (runs / "here" / file).read_text(encoding="utf-8")
    assert [run["name"] for run in embedded(page)[0]["runs"]] == names
    assert view.main(given) == 0  # the same page again


def test_an_archive_in_a_folder_called_evaluations_needs_no_run(runs):
    write_archive(runs / "evaluations" / "t5")
    assert view.main([str(runs / "evaluations" / "t5")]) == 0


def test_a_name_that_the_command_chooses_replaces_only_a_page_of_the_same_evaluations(runs, capsys):
    demo, page = runs / "demo", runs / "here" / "demo_test.html"
    assert view.main([str(demo)]) == view.main([str(demo)]) == 0
    written = page.read_bytes()
    assert str(runs).encode() not in written  # a page that is sent to others does not tell where it was made
    write_evaluation(runs / "other" / "demo", "test")
    assert view.main([str(runs / "other" / "demo")]) == 2
    assert "demo_test.html: already there, and not a page of these evaluations" in capsys.readouterr().err
    assert page.read_bytes() == written
    page.write_text("my notes", encoding="utf-8")
    assert view.main([str(demo)]) == 2
    assert page.read_text(encoding="utf-8") == "my notes"
    assert "choose another name with --output, or move it away" in capsys.readouterr().err


def test_the_file_that_is_named_is_replaced_unless_the_command_reads_it(runs, capsys):
    page = runs / "here" / "page.html"
    page.write_text("my notes", encoding="utf-8")
    assert view.main([str(runs / "demo"), "--output", "page.html"]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    evaluation = runs / "demo" / "evaluations" / "test"
    (evaluation / "translations.tsv").write_text("")
    (runs / "here" / "link").symlink_to(runs / "t5" / "manifest.json")
    capsys.readouterr()
    for name, read in (("demo/config.yaml", "demo"), ("demo/evaluations/test/translations.tsv", "demo")):
        assert view.main([str(runs / read), "--output", str(runs / name)]) == 2
    (evaluation / "translations.tsv").unlink()
    shard = next((evaluation / "attention").glob("shard-*.npz"))
    assert view.main([str(runs / "demo"), "--output", str(shard)]) == 2
    assert view.main([str(runs / "t5"), "--output", "link"]) == 2
    assert capsys.readouterr().err.count("the command reads this file; choose another name") == 4
    for name in ("demo/mine.html", "demo/evaluations/test/viewer.html", "t5/mine.html"):  # beside what is read
        (runs / name).touch()
        assert view.main([str(runs / name.split("/")[0]), "--output", str(runs / name)]) == 0


def test_links_stay_and_pipes_are_written_into(runs):
    (runs / "here" / "link.html").symlink_to(runs / "page.html")
    for _ in range(2):
        assert view.main([str(runs / "demo"), "--output", "link.html"]) == 0
    assert (runs / "here" / "link.html").is_symlink() and not (runs / "page.html").is_symlink()
    with read_pipe(runs / "pipe") as read:
        assert view.main([str(runs / "demo"), "--output", str(runs / "pipe")]) == 0
    assert read == [(runs / "page.html").read_bytes()]


def test_evaluations_of_other_sentences_are_refused(runs, capsys):
    write_evaluation(runs / "demo", "mine", source="another sentence")
    assert view.main([str(runs / "demo"), str(runs / "demo/evaluations/mine")]) == 2
    assert "have different sentences" in capsys.readouterr().err
    assert not list((runs / "here").iterdir())


def test_the_page_says_what_is_known_of_the_run_and_which_part_of_the_set_it_shows(runs):
    write_evaluation(runs / "known", "test", sentences=3)
    (runs / "known" / "config.yaml").write_text(MINIMAL, encoding="utf-8")
    metrics = runs / "known" / "evaluations" / "test" / "metrics.json"
    metrics.write_text('{"bleu": 41.31, "search": "greedy"}', encoding="utf-8")
    assert view.main([str(runs / "known"), "--sentences", "2", "--output", "page.html"]) == 0
    (run,) = embedded((runs / "here" / "page.html").read_text(encoding="utf-8"))[0]["runs"]
    assert run["facts"][0] == "en → fr" and [in_english(fact) for fact in run["facts"][-2:]] == [
        "greedy search",
        "BLEU 41.3",
    ]
    assert (len(run["sentences"]), run["sentencesInSet"]) == (2, 3)
