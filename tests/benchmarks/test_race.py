"""The race of toolkits, with a racer that needs no toolkit; tests/benchmarks/race.py runs the others for hours."""

import json

import pandas as pd
import pytest

from tests.benchmarks import race
from tests.benchmarks.race_picture import CURVES
from tests.benchmarks.race_results import write_results
from tests.benchmarks.racers import clock as clocks
from tests.benchmarks.racers.clock import SHARES, Clock, read_checkpoints

pytestmark = pytest.mark.minutes

ECHO = {"echo": race.Racer("Echo", "tests.benchmarks.racers.echo")}
LINES = ["a b c d e f g h", "the cat sees the small dog , yes", "one two three four five six seven"]


@pytest.fixture
def text(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for name in ("train", race.VALIDATION, race.TEST):
        for side in ("en", "de"):
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return folder


def run(folder, text, minutes=3.0):
    return race.race(ECHO, folder, text, minutes, threads=1)


def test_the_best_checkpoint_counts_and_translations_that_were_lost_are_made_again(text, tmp_path):
    (row,) = first = run(tmp_path / "race", text)
    assert [point["validation BLEU"] == pytest.approx(100) for point in row["curve"]] == [False, True, False]
    assert (row["checkpoint"], row["search"]) == ("02 of 01, 02, 03", "beam of 2")
    assert row["test BLEU"] == pytest.approx(100)
    log = tmp_path / "race/echo/translations.log"
    log.unlink()
    (tmp_path / "race/echo/val.03.beam1.txt").unlink()
    assert run(tmp_path / "race", text) == first
    assert log.read_text() == "03 1\n"


def test_table_curves_and_picture_are_written(text, tmp_path):
    folder = tmp_path / "race"
    rows = run(folder, text)
    write_results([*rows, {**rows[0], "racer": "Other", "test BLEU": 1.0}], folder)
    results = pd.read_csv(folder / "results.csv")
    assert list(results["racer"]) == ["Echo", "Other"]
    assert results["version"][0].startswith("sacrebleu ")
    assert list(pd.read_csv(folder / "curve.csv")["minutes"])[:3] == [1, 2, 3]
    assert "\n| Echo | sacrebleu " in (folder / "results.md").read_text(encoding="utf-8")
    assert {"race.svg", "race.png"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("minutes", CURVES)
def test_kept_curves_have_their_racers_within_the_time(minutes):
    curves = pd.read_csv(CURVES[minutes])
    titles = {racer.title for racer in race.RACERS.values()}
    assert set(curves["racer"]) <= titles and curves["racer"].nunique() == {12: len(titles), 30: 4}[minutes]
    assert 0.9 * minutes < curves["minutes"].max() <= minutes * race.GRACE
    for _, points in curves.groupby("racer"):
        assert points["minutes"].is_monotonic_increasing and points["target_tokens"].is_monotonic_increasing


def test_the_clock_saves_a_checkpoint_at_each_share_of_the_minutes_and_ends(tmp_path, monkeypatch):
    now, saved = [1000.0], []
    monkeypatch.setattr(clocks.time, "time", lambda: now[0])
    clock = Clock(tmp_path, minutes=12, started=1000.0)
    goes_on = []
    for _ in range(26):
        now[0] += 30
        goes_on.append(clock.after_update(10, saved.append))
        if not goes_on[-1]:
            break
    checkpoints = read_checkpoints(tmp_path)
    assert [checkpoint["minutes"] for checkpoint in checkpoints] == pytest.approx([12 * share for share in SHARES])
    assert [path.name for path in saved] == [checkpoint["name"] for checkpoint in checkpoints]
    assert goes_on == [True] * 23 + [False]
    assert checkpoints[-1]["target_tokens"] == 240
    assert json.loads((tmp_path / "checkpoints.jsonl").read_text().splitlines()[0])["updates"] == 2
