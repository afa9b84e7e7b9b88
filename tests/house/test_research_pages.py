"""The pages on research: their example runs as it is written, and they name every interval, field and paper."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from qkv.alignment.head_scores import ERROR_RATE_COLUMNS
from qkv.evaluation.comparison import COLUMN_DIGITS
from qkv.inspection.experiments.faithfulness import KEYS, SUMS, faithfulness_table
from qkv.inspection.experiments.head_effects import HeadEffects
from qkv.inspection.head_types import HEAD_TYPE_COLUMNS
from qkv.statistics.resampling import ratio_interval
from tests.support import ROOT
from tests.support.journeys import run

RESEARCH = ROOT / "docs" / "research"
INTERVALS = (RESEARCH / "intervals.md").read_text(encoding="utf-8")
REPORT = (RESEARCH / "report.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEMO = ROOT / "runs" / "demo"
needs_the_demo = pytest.mark.skipif(not (DEMO / "manifest.json").is_file(), reason="needs the trained demo")


# Intervals


def uses_intervals(path):
    """Whether a module imports from `statistics.resampling` or `statistics.significance`."""
    imports = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    modules = {(node.module or "").split(".")[-1] for node in imports if "statistics" in (node.module or "")}
    return bool(modules & {"resampling", "significance"})


def test_the_page_names_every_module_that_computes_an_interval():
    package = ROOT / "pipeline" / "qkv"
    modules = [path for path in sorted(package.rglob("*.py")) if uses_intervals(path)]
    assert len(modules) > 8
    for path in modules:
        assert f"`{path.relative_to(ROOT)}`" in INTERVALS


def test_the_page_names_every_column_with_an_interval_or_a_p():
    scorers = pd.DataFrame([("random", "", "", "hard", 0.1)], columns=list(KEYS))
    faithfulness = faithfulness_table(scorers.assign(id=0, tokens=2.0, **dict.fromkeys(SUMS, 1.0)), 1.0)
    effects = HeadEffects([(0, 0, "zeroed")], np.ones((3, 1, 2)), np.ones(3)).table()
    columns = {*ERROR_RATE_COLUMNS, *HEAD_TYPE_COLUMNS, *faithfulness, *effects, *COLUMN_DIGITS}
    carriers = [name for name in columns if re.search(r"_(low|high)$|(^| )(p|±)$", name)]
    assert len(carriers) > 15
    table = INTERVALS.split("## Every interval and every p")[1].split("\n## ")[0]
    for name in carriers:
        assert f"`{name}`" in table, name


@needs_the_demo
def test_the_lines_of_the_page_compute_the_interval_of_the_package(monkeypatch):
    monkeypatch.chdir(ROOT)
    (code,) = (code for kind, code in FENCED.findall(INTERVALS) if kind == "python")
    names: dict = {}
    exec(compile(code, "intervals.md", "exec"), names)
    expected = ratio_interval(*(names[name].to_numpy(float) for name in ("wrong", "links")))
    np.testing.assert_allclose((names["low"], names["high"]), expected)


# The example


def without_numbers(text):
    """With single spaces, too: another processor trains other weights."""
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "#", text)).strip()


@needs_the_demo
@pytest.mark.slow
@pytest.mark.minutes
def test_the_example_runs_as_it_is_written(tmp_path, monkeypatch, capsys):
    """But on fewer sentences where the Transformer is run many times. The numbers of Model 1 are those of the page; the
    Transformer's say what the page says of them."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    run_folder = tmp_path / "runs" / "demo"
    run_folder.mkdir(parents=True)
    for part in DEMO.iterdir():
        if part.name != "evaluations":
            (run_folder / part.name).symlink_to(part)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    printed, shown = [], []
    page = (RESEARCH / "index.md").read_text(encoding="utf-8")
    for many, few in (("--faithfulness 50", "--faithfulness 15"), ("in pair[0]][:20]", "in pair[0]][:5]")):
        assert page.count(many) == 1
        page = page.replace(many, few)
    for kind, code in FENCED.findall(page):
        if kind == "python":
            exec(compile(code, "index.md", "exec"), names)
            printed.append(capsys.readouterr().out)
        elif kind == "sh":
            ended = [run(tmp_path, "-m", *command.split()) for command in code.splitlines()]
            printed.append(ended[-1].stdout)
        elif kind == "text":
            shown.append(code)
    measured, heads, compared, faithful, patched = printed[1:]
    assert shown[0] in measured and heads == shown[1]
    assert without_numbers(shown[2].splitlines()[1]) == without_numbers(compared.splitlines()[3])
    assert sorted(map(without_numbers, faithful.splitlines())) == sorted(map(without_numbers, shown[3].splitlines()))
    assert without_numbers(patched) == without_numbers(shown[4])

    assert float(re.search(r"^AER +([\d.]+) .*? +([\d.]+) ", compared, re.MULTILINE)[1]) < 4
    lost = {tuple(line.split()[:-3]): float(line.split()[-3]) for line in faithful.splitlines()[1:]}
    worst_head = min(lost["weights", f"{head}"] for head in range(4))
    assert lost["random",] + 0.2 < lost["diagonal",] < worst_head <= lost["weights", "mean"] + 0.02
    undone = np.array(re.findall(r"undone (-?\d+)% \((-?\d+)% to (-?\d+)%\)", patched), int)
    assert undone.shape == (4, 3) and (undone[:, 1] <= undone[:, 0]).all() and (undone[:, 0] <= undone[:, 2]).all()
    assert undone[:, 0].max() - undone[:, 0].min() > 15


# How to report and cite


def test_the_entry_of_bibtex_says_what_the_citation_file_says():
    entry = dict(re.findall(r"^  (\w+) = \{+(.*?)\}+,?$", REPORT, re.MULTILINE))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert entry["title"] == citation["title"] and entry["license"] == citation["license"]
    assert entry["author"] == " and ".join(author["name"] for author in citation["authors"])
    assert entry["version"] == re.sub(r"\.dev\d+$", "", citation["version"])
    assert entry["note"] == citation["abstract"].rstrip(".")


def keys_of(value):
    """All keys of nested mappings."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield key
        yield from keys_of(inner)


@needs_the_demo
def test_files_of_a_run_have_the_fields_that_the_page_names():
    files = {
        "config.yaml": yaml.safe_load((DEMO / "config.yaml").read_text("utf-8")),
        "history.csv": dict.fromkeys(pd.read_csv(DEMO / "history.csv")),
        **{name: json.loads((DEMO / name).read_text("utf-8")) for name in ("manifest.json", "corpus_report.json")},
        "metrics.json": json.loads((DEMO / "evaluations/test/metrics.json").read_text("utf-8")),
    }
    content: dict = {}
    named = 0
    for row in re.findall(
        r"^\| .*? \| (.*) \|$", REPORT.split("Where each fact stands")[1].split("\n## ")[0], re.MULTILINE
    ):
        for span in re.findall(r"`([^`]+)`", row):
            name = Path(span).name
            if name in files:
                content = files[name]
            elif re.fullmatch(r"[\w.]+", span):
                assert set(span.split(".")) <= {*keys_of(content)}, span
                named += 1
    assert named > 25


def test_papers_that_the_page_cites_are_named_where_their_methods_are():
    """So that no row names a paper which the code and the other pages do not know."""
    table = REPORT.split("## Cite the methods that you use")[1]
    cited = re.findall(r"([A-Z][\w-]+)(?: et al\.| and [A-Z]\w+)? (\d{4})", table)
    assert len(cited) > 30
    others = [*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    text = " ".join(path.read_text("utf-8") for path in others if path != RESEARCH / "report.md")
    text = re.sub(r"\s+", " ", text)
    missing = [(name, year) for name, year in cited if not re.search(rf"{name}[^.;()]{{0,40}}\.?,? \(?{year}", text)]
    assert missing == []
