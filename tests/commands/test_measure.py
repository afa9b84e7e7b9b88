"""Archives without a run, of Hugging Face's models among them: measured, viewed, drawn and compared without
TensorFlow, with the alignment error rates of an oracle."""

import csv
import json
import re
import shutil

import numpy as np
import pytest

from qkv.commands import measure
from qkv.files.written import LIST
from qkv.inspection import AttentionArchive, Sentence, write_archive
from qkv.text.corpora.word_links import GoldAlignment
from tests.support import ROOT
from tests.support.oracles import word_matrix_by_loops
from tests.support.processes import run_without
from tests.support.viewer import embedded

KEPT = ROOT / "tests" / "kept_archives"
NAMES = ("bart", "marian", "t5")

COMMANDS = """
import importlib, json, sys
for name, *arguments in json.loads(sys.argv[1]):
    assert importlib.import_module(f"qkv.commands.{name}").main(arguments) == 0
assert not {"tensorflow", "keras"} & set(sys.modules)
"""


def test_archives_of_every_recipe_are_kept():
    assert {path.parent.name for path in KEPT.glob("*/manifest.json")} == set(NAMES)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """What the commands leave and print of copies of the kept archives."""
    folder = tmp_path_factory.mktemp("archives")
    for name in NAMES:
        shutil.copytree(KEPT / name, folder / name)
    paths = [str(folder / name) for name in NAMES]
    commands = [
        *(["measure", path] for path in paths),
        ["measure", paths[1], "--choose_on", paths[1], "--folder", str(folder / "chosen")],
        ["view", *paths, "--output", str(folder / "page.html")],
        ["draw", paths[0], "--sentence", "2", "--layer", "1", "--output", str(folder / "picture.png")],
        ["compare", *paths, "--csv", str(folder / "table.csv")],
    ]
    ended = run_without(["tensorflow", "keras"], folder / "site", "-c", COMMANDS, json.dumps(commands))
    assert ended.returncode == 0, ended.stderr
    return folder, ended.stdout


def read_archive(folder):
    """Each sentence with its cross-attention, read with json and NumPy alone."""
    for line in (folder / "sentences.jsonl").read_text(encoding="utf-8").splitlines():
        sentence = json.loads(line)
        with np.load(folder / sentence["shard"]) as shard:
            yield sentence, shard[f"cross/{sentence['id']:06d}"]


def read_links(line):
    links = [(int(link.replace("?", "-").split("-")[0]), int(link.replace("?", "-").split("-")[1])) for link in line]
    return {link for link, text in zip(links, line, strict=True) if "-" in text}, set(links)


def word_weights(sentence, weights, side):
    rows = sentence["target_words"] if side == "output" else [None, *sentence["target_words"][:-1]]
    sizes = [len(sentence[name].split()) for name in ("source", "hypothesis")]
    return word_matrix_by_loops(weights, sentence["source_words"], rows, *sizes)


def rows_of(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def error_rate(folder, layer, head, side, linked):
    """The oracle: loops over words."""
    hits = total = 0
    gold = (folder / "gold.pharaoh").read_text(encoding="utf-8").splitlines()
    for (sentence, weights), line in zip(read_archive(folder), gold, strict=True):
        of_layer = weights[layer].astype("float64")
        matrix = word_weights(sentence, of_layer.mean(0) if head == "mean" else of_layer[int(head)], side)
        by_target = {(int(np.argmax(row)), j) for j, row in enumerate(matrix) if row.max() > 0}
        by_source = {(i, int(np.argmax(column))) for i, column in enumerate(matrix.T) if column.max() > 0}
        links = {"target": by_target, "source": by_source, "mutual": by_target & by_source}[linked]
        sure, possible = read_links(line.split())
        hits += len(links & sure) + len(links & possible)
        total += len(links) + len(sure)
    return 1 - hits / total


@pytest.mark.parametrize("name", NAMES)
def test_error_rates_are_those_of_the_oracle(done, name):
    folder = done[0] / name
    rows = [row for row in rows_of(folder / "head_alignment.csv") if row["linked"] in ("target", "source", "mutual")]
    layers, heads = AttentionArchive(folder).manifest["sites"]["cross"]
    assert len(rows) == 2 * 3 * layers * (heads + 1)
    for row in rows:
        expected = error_rate(folder, int(row["layer"]), row["head"], row["side"], row["linked"])
        assert float(row["aer"]) == pytest.approx(expected, abs=1e-9), row
    chosen = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["alignment"]
    for linked in ("target", "source", "mutual"):
        expected = error_rate(folder, chosen["layer"], chosen["head"], chosen["side"], linked)
        assert chosen["aer_by_links"][linked] == pytest.approx(100 * expected)


def test_links_of_the_chosen_readout_have_its_error_rate(done):
    for name in NAMES:
        metrics = json.loads((done[0] / name / "metrics.json").read_text(encoding="utf-8"))
        counts = np.zeros(2)
        for ours, gold in zip(
            *((done[0] / name / file).read_text().splitlines() for file in ("alignments.pharaoh", "gold.pharaoh")),
            strict=True,
        ):
            links, (sure, possible) = read_links(ours.split())[0], read_links(gold.split())
            counts += len(links & sure) + len(links & possible), len(links) + len(sure)
        assert metrics["alignment"]["aer"] == pytest.approx(100 * (1 - counts[0] / counts[1]))
        assert metrics["alignment"]["chosen_on"] == f"{name} itself (optimistic)"
    chosen = json.loads((done[0] / "chosen" / "metrics.json").read_text(encoding="utf-8"))
    assert chosen["alignment"]["chosen_on"] == str(done[0] / "marian")


def test_heads_and_sentences_are_measured(done):
    for name in NAMES:
        folder = done[0] / name
        rows = rows_of(folder / "heads.csv")
        sentences = list(read_archive(folder))
        layers, heads = sentences[0][1].shape[:2]
        assert len(rows) == layers * heads
        total = sum(weights.shape[2] for _, weights in sentences)
        for row in rows:
            largest = sum(weights[int(row["layer"]), int(row["head"])].max(-1).sum() for _, weights in sentences)
            assert float(row["confidence"]) == pytest.approx(largest / total, rel=1e-5)
        assert len(rows_of(folder / "sentences.csv")) == len(sentences)


def test_types_of_heads_are_in_a_table_of_their_own_and_the_last_columns(done):
    for name in NAMES:
        heads, types = (rows_of(done[0] / name / f"{table}.csv") for table in ("heads", "head_types"))
        assert list(heads[0])[-3:] == ["type", "type_share", "type_p"]
        assert len(types) == 6 * len(heads) and {row["site"] for row in types} == {"cross"}
        assert {row["type"] for row in heads} == {""}  # five sentences allow no name
        assert {row["named"] for row in types} == {"False"}


def test_the_page_shows_archives_side_by_side_with_their_gold_links(done):
    data = embedded((done[0] / "page.html").read_text(encoding="utf-8"))[0]
    assert [run["name"] for run in data["runs"]] == list(NAMES) and data["title"] == "bart + marian + t5"
    gold = read_links((KEPT / "t5" / "gold.pharaoh").read_text(encoding="utf-8").splitlines()[0].split())
    for run in data["runs"]:
        assert {(i, j) for i, j, _ in run["sentences"][0]["gold"]} == gold[1]
    assert (done[0] / "picture.png").stat().st_size > 1000


def test_archives_over_given_text_are_compared_by_their_error_rates(done):
    folder, printed = done
    for row, name in zip(rows_of(folder / "table.csv"), NAMES, strict=True):
        metrics = json.loads((folder / name / "metrics.json").read_text(encoding="utf-8"))
        assert float(row["AER"]) == metrics["alignment"]["aer"] and float(row["loss"]) == metrics["loss"]
        likelihoods = [sentence["token_log_probabilities"] for sentence, _ in read_archive(folder / name)]
        assert metrics["loss"] == pytest.approx(-np.mean(np.concatenate(likelihoods)))
        assert "BLEU" not in row and row["seed"] == row["minutes"] == ""
    table = printed.split("5 sentences; p against the first\n\n")[1]
    assert table.split("\n")[0].split() == ["AER", "AER", "±", "AER", "p", "loss", "search"]


SENTENCES = [
    Sentence(["▁the", "▁cat", "</s>"], ["▁le", "▁chat", "▁dort", "</s>"], reference="le chat dort bien"),
    Sentence(["▁a", "</s>"], ["▁un", "▁deux", "</s>"], reference="un deux"),
]
LINKS = [{(0, 0), (1, 1)}, {(0, 0), (5, 1)}]  # the last one is out of range
GOLD = [GoldAlignment(frozenset(links), frozenset(links)) for links in LINKS]


def write(folder, mode="forced", gold=None, layers=1):
    weights = [
        np.full((layers, 2, len(s.target_tokens), len(s.source_tokens)), 1 / len(s.source_tokens)) for s in SENTENCES
    ]
    write_archive(folder, SENTENCES, weights, mode=mode, gold=gold)
    return str(folder)


def measured(folder):
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def test_translations_with_references_are_scored(tmp_path, capsys, caplog):
    path = write(tmp_path / "a", "beam")
    assert measure.main([path, "--bleu_tokenizer", "char"]) == 0
    metrics = measured(tmp_path / "a")
    assert (metrics["mode"], metrics["search"], metrics["bleu_tokenizer"]) == ("translated", "beam", "char")
    assert 0 < metrics["bleu"] < 100 and "alignment" not in metrics and "loss" not in metrics
    assert f"BLEU       {metrics['bleu']:.2f}" in caplog.text
    assert capsys.readouterr().out == f"results: {path}\nnext:\n  qkv view {path}\n"
    assert not (tmp_path / "a" / "head_alignment.csv").exists()


def test_gold_links_may_come_from_a_file_and_those_out_of_range_are_counted(tmp_path):
    path = write(tmp_path / "a")
    (tmp_path / "gold").write_text("0-0 1-1\n0-0 5-1\n")
    assert measure.main([path, "--alignments", str(tmp_path / "gold")]) == 0
    assert measured(tmp_path / "a")["alignment"]["gold_links_out_of_range"] == 1
    assert "bleu" not in measured(tmp_path / "a")  # the targets were given
    inside = measured(tmp_path / "a")["alignment"]
    write(tmp_path / "b", gold=GOLD)
    assert measure.main([str(tmp_path / "b")]) == 0
    del inside["chosen_on"]
    assert inside.items() <= measured(tmp_path / "b")["alignment"].items()


def test_gold_links_of_a_file_may_count_from_one(tmp_path, capsys):
    write(tmp_path / "a")
    arguments = [str(tmp_path / "a"), "--alignments", write_lines(tmp_path, "1-1 2-2\n1-1 1-2\n")]
    assert measure.main(arguments) == 2
    assert "If they are counted from 1, give --first_index 1 (first_index=1 from Python);" in capsys.readouterr().err
    assert measure.main([*arguments, "--first_index", "1"]) == 0
    assert measured(tmp_path / "a")["alignment"]["gold_links_out_of_range"] == 0
    assert measure.main([str(tmp_path / "a"), "--first_index", "1"]) == 2
    assert "--first_index needs --alignments" in capsys.readouterr().err


def test_a_readout_chosen_elsewhere_links_an_archive_without_gold(tmp_path):
    path, other = write(tmp_path / "a", "greedy"), write(tmp_path / "b", gold=GOLD)
    assert measure.main([path, "--choose_on", other]) == 0
    assert len((tmp_path / "a" / "alignments.pharaoh").read_text().splitlines()) == 2
    assert "alignment" not in measured(tmp_path / "a")


def write_lines(folder, text):
    (folder / "lines").write_text(text)
    return str(folder / "lines")


BAD = {
    "translations": (
        lambda folder: [write(folder / "a", "greedy"), "--alignments", write_lines(folder, "0-0\n0-0\n")],
        r"a: sentence 0 is a translation of the model \(mode greedy\), and gold links belong to a given text",
    ),
    "other lines": (
        lambda folder: [write(folder / "a"), "--alignments", write_lines(folder, "0-0\n")],
        "a: 1 gold alignments for 2 sentences",
    ),
    "no link": (
        lambda folder: [write(folder / "a"), "--alignments", write_lines(folder, "7-0\n\n")],
        r"no line has a link between words that exist \(1 links are out of range\)",
    ),
    "nothing to choose by": (
        lambda folder: [write(folder / "a"), "--choose_on", write(folder / "b")],
        "b: no gold alignments to choose by",
    ),
    "another model": (
        lambda folder: [write(folder / "a"), "--choose_on", write(folder / "b", gold=GOLD, layers=2)],
        r"b has sites with \[layers, heads\] .* expected one model",
    ),
    "damaged gold": (
        lambda folder: [write(folder / "a"), (folder / "a" / "gold.pharaoh").write_text("0-0\nx\n")][:1],
        r"gold\.pharaoh:2: 'x' is not a link",
    ),
    "gold of other text": (
        lambda folder: [write(folder / "a"), (folder / "a" / "gold.pharaoh").write_text("0-0\n")][:1],
        r"gold\.pharaoh: expected 2 lines, one per sentence, found 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_measured_is_refused(tmp_path, capsys, case):
    arrange, message = BAD[case]
    assert measure.main(arrange(tmp_path)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert re.search(message, error), error
    assert not (tmp_path / "a" / "metrics.json").exists()


def test_files_of_others_in_an_archive_stay(tmp_path, capsys):
    path = write(tmp_path / "a", gold=GOLD)
    for name in ("metrics.json", "heads.csv", "sentence_alignment.csv"):
        file = tmp_path / "a" / name
        file.write_text('{"sentences": 2}')
        assert measure.main([path]) == 2
        assert f"{file}: not written by this command; name another folder with --folder" in capsys.readouterr().err
        assert file.read_text() == '{"sentences": 2}'
        assert not (tmp_path / "a" / "head_types.csv").exists()
        file.unlink()
    assert measure.main([path]) == measure.main([path]) == 0
    (tmp_path / "a" / "viewer.html").touch()  # which is not of this command
    (tmp_path / "a" / LIST).unlink()  # as after a version that wrote no list
    assert measure.main([path]) == 0


def test_what_evaluate_has_measured_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").touch()
    evaluation = tmp_path / "run" / "evaluations" / "test"
    write(evaluation / "attention", gold=GOLD)
    assert measure.main([str(evaluation)]) == 2
    assert "test: measured already by evaluate.py" in capsys.readouterr().err
    assert measure.main([str(evaluation), "--folder", str(tmp_path / "new" / "folder")]) == 0
    assert measured(tmp_path / "new" / "folder")["name"] == "test"
    assert [path.name for path in evaluation.iterdir()] == ["attention"]
