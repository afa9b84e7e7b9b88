"""The commands as a person runs them: train, evaluate and translate, and what they leave in a small run's folder."""

import csv
import io
import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pandas as pd
import pytest

import evaluate
import train
from qkv.alignment.aligned_text import AlignedText
from qkv.alignment.error_rate import alignment_error_rate
from qkv.alignment.linking import Direction
from qkv.alignment.readout_selection import find_readout
from qkv.commands import align, translate, view
from qkv.config import load_run_config
from qkv.config.choices.inspection import SOURCE_SCORERS
from qkv.evaluation import request
from qkv.evaluation.tables import read_translations
from qkv.files.json import read_json_object
from qkv.files.run_directory import RunDirectory
from qkv.inspection.archive import AttentionArchive
from qkv.inspection.experiments.activations import cache_sentences
from qkv.live.live_run import LiveRun
from qkv.live.question import Question
from qkv.run.trained_run import load_run
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.lines.moses import detokenize
from qkv.text.tokens.words import AT_SPACES
from tests.support import ROOT, files_below
from tests.support.processes import PATIENCE_SECONDS

pytestmark = [pytest.mark.minutes, pytest.mark.slow, pytest.mark.usefixtures("loaded_once")]

FILE = __file__  # some file that exists
# Besides ordinary pairs: quotation marks and missing-value words, which tables swallow, and an empty line.
SOURCES = ['the cat said " and NA', "NA", '"', "", "null"]
REFERENCES = ['le chat dit " et NA', "NA", '"', "", "nul"]
ORDINARY = 4  # pairs of the demo that stand before them


def first_lines(name, count):
    with (ROOT / "data/demo" / name).open(encoding="utf-8") as lines:
        return [next(lines).rstrip("\n") for _ in range(count)]


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A folder with a few of the demo's pairs for each set."""
    folder = tmp_path_factory.mktemp("text")
    extra = {"en": SOURCES, "fr": REFERENCES, "align": [""] * len(SOURCES)}
    for side in extra:
        write_lines(folder / f"train.{side}", first_lines(f"train.{side}", 400))
        write_lines(folder / f"validation.{side}", first_lines(f"validation.{side}", 6))
        write_lines(folder / f"test.{side}", first_lines(f"test.{side}", ORDINARY) + extra[side])
    return folder


def train_tiny(text, folder, name, **settings):
    arguments = ["--config", str(ROOT / "configs/tiny.yaml"), "--run.directory", str(folder), "--run.name", name]
    for split in ("train", "validation", "test"):
        for key, side in (("source", "en"), ("target", "fr"), ("alignments", "align")):
            arguments += [f"--data.{split}.{key}", str(text / f"{split}.{side}")]
    settings = {
        "data.tokenized": "true",
        "training.max_updates": 4,
        "decoding.max_target_ratio": 1,
        "decoding.max_target_extra": 3,
        **settings,
    }
    for key, value in settings.items():
        arguments += [f"--{key}", str(value)]
    keras.utils.set_random_seed(0)
    assert train.main(arguments) == 0
    return folder / name


@pytest.fixture(scope="session")
def run(text, tmp_path_factory):
    return train_tiny(text, tmp_path_factory.mktemp("runs"), "tiny")


@pytest.fixture(scope="session")
def evaluated(run):
    """The run's evaluation on its test set."""
    assert evaluate.main([str(run)]) == 0
    return run / "evaluations" / "test"


@pytest.fixture(scope="session")
def metrics(evaluated):
    return read_json_object(evaluated / "metrics.json")


@pytest.fixture(scope="session")
def table(evaluated):
    return pd.read_csv(evaluated / "translations.tsv", sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)


@pytest.fixture(scope="session")
def sentences(evaluated):
    with (evaluated / "attention/sentences.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_evaluation_leaves_its_files_and_no_others(evaluated):
    assert sorted(files_below(evaluated)) == [
        ".written",
        "alignments.pharaoh",
        "attention/manifest.json",
        "attention/sentences.jsonl",
        "attention/shard-00000.npz",
        "head_alignment.csv",
        "head_types.csv",
        "heads.csv",
        "heatmaps/probe-000000-cross-layer-0.png",
        "metrics.json",
        "sentence_alignment.csv",
        "sentence_heads.csv",
        "sentences.csv",
        "spectra.csv",
        "translations.tsv",
        "viewer.html",
    ]
    assert [path.name for path in evaluated.parent.iterdir()] == ["test"]
    for path in (evaluated / "heatmaps").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
    assert len((evaluated / "alignments.pharaoh").read_text().split("\n")) == ORDINARY + len(SOURCES) + 1
    assert pd.read_csv(evaluated / "heads.csv")[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]


def test_metrics_name_every_score_and_how_it_was_made(metrics):
    assert (metrics["set"], metrics["name"], metrics["mode"]) == ("test", "test", "translated")
    assert metrics["checkpoint"] == "model.keras"
    assert (metrics["search"], metrics["decoding"]["length_penalty"]) == ("beam", 1.0)
    assert metrics["sentences"] == ORDINARY + len(SOURCES)
    for name in ("bleu", "chrf", "chrf++", "loss", "perplexity", "token_accuracy", "seconds"):
        assert isinstance(metrics[name], float) and np.isfinite(metrics[name])
    assert metrics["perplexity"] == pytest.approx(np.exp(metrics["loss"]))
    assert "tok:none" in metrics["signatures"]["bleu"] and "nc:6" in metrics["signatures"]["chrf"]
    alignment = metrics["alignment"]
    for name in ("aer", "precision", "recall", "diagonal_aer", "random_aer"):
        assert 0 <= alignment[name] <= 100
    assert alignment["chosen_on"] == "validation"
    assert alignment["layer"] == 0 and alignment["head"] in (0, 1, "mean") and alignment["side"] in ("output", "input")


def test_translations_read_back_as_they_are(table, text):
    assert table["source"].tolist() == first_lines("test.en", ORDINARY) + SOURCES
    assert table["reference"].tolist() == first_lines("test.fr", ORDINARY) + REFERENCES
    assert table["id"].tolist() == list(range(ORDINARY + len(SOURCES)))
    assert table["translation"][ORDINARY + SOURCES.index("")] == ""
    assert table.columns.tolist()[4:7] == ["log_probability", "score", "tokens"]
    assert table.columns.tolist()[7:] == ["truncated", "sentence_bleu", "sentence_chrf"]


def test_the_archive_is_read_with_numpy_and_json_alone(evaluated, sentences, table):
    assert [sentence["id"] for sentence in sentences] == table["id"].tolist()
    for sentence in sentences:
        with np.load(evaluated / "attention" / sentence["shard"]) as shard:
            weights = shard[f"cross/{sentence['id']:06d}"]
        T, S = len(sentence["target_output_tokens"]), len(sentence["source_tokens"])
        assert weights.shape == (1, 2, T, S) and weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert sentence["hypothesis"] == table["translation"][sentence["id"]]
        assert sentence["mode"] == "beam"
    manifest = read_json_object(evaluated / "attention/manifest.json")
    assert manifest["complete"] and manifest["run"] == "tiny" and len(manifest["model_sha256"]) == 64


def test_tokens_of_the_archive_add_up_to_the_log_probability_of_the_translation(sentences, table):
    for sentence in sentences:
        assert len(sentence["token_log_probabilities"]) == table["tokens"][sentence["id"]]
        if sentence["source"]:  # an empty line is not translated, so its translation is certain
            total = sum(sentence["token_log_probabilities"])
            assert total == pytest.approx(table["log_probability"][sentence["id"]], abs=1e-3)


def test_text_of_ones_own_is_evaluated_in_place_of_an_older_evaluation(run, text, metrics, caplog):
    mine = run / "evaluations/mine"
    mine.mkdir(parents=True)
    (mine / "left over").touch()
    own = ["--source", str(text / "test.en"), "--reference", str(text / "test.fr")]
    with caplog.at_level(logging.INFO):
        own += ["--alignments", str(text / "test.align"), "--name", "mine", "--forced", "--perturb", "3"]
        own += ["--faithfulness", "2"]
        assert evaluate.main([str(run), *own]) == 0
    assert (mine / "left over").exists()  # no evaluation has written it
    assert not [path.name for path in mine.parent.iterdir() if path.name.startswith(".")]

    found = read_json_object(mine / "metrics.json")
    assert (found["set"], found["name"], found["mode"]) == ("test.en", "mine", "forced")
    assert [path.name[:15] for path in sorted((mine / "heatmaps").iterdir())] == [f"sentence-{i:06d}" for i in range(3)]
    for name in ("bleu", "chrf", "loss", "token_accuracy"):
        assert found[name] == pytest.approx(metrics[name])
    assert found["alignment"] == metrics["alignment"]
    with (mine / "attention/sentences.jsonl").open(encoding="utf-8") as lines:
        forced = [json.loads(line) for line in lines]
    assert {sentence["mode"] for sentence in forced} == {"forced"}
    assert [sentence["hypothesis"] for sentence in forced] == first_lines("test.fr", ORDINARY) + REFERENCES

    # Over references, the links written are those whose error rate is reported.
    links = [sentence.sure for sentence in read_pharaoh(mine / "alignments.pharaoh")]
    score = alignment_error_rate(links, read_pharaoh(text / "test.align"))
    assert 100 * score.aer == pytest.approx(found["alignment"]["aer"])

    assert 0 < found["perturbation_seconds"] < found["seconds"]
    perturbed = pd.read_csv(mine / "perturbation.csv")
    assert len(perturbed) == 2 * (4 + 2) and perturbed["loss_change"].is_monotonic_decreasing
    assert (perturbed["loss_change_low"] <= perturbed["loss_change_high"]).all() and perturbed["p"].between(0, 1).all()
    of_sentences = pd.read_csv(mine / "perturbation_sentences.csv")
    assert len(of_sentences) == 3 * len(perturbed)
    total = (of_sentences["loss_change"] * of_sentences["tokens"]).sum() / of_sentences["tokens"].sum()
    assert total == pytest.approx(perturbed["loss_change"].mean(), abs=1e-5)
    assert (perturbed["tokens"] == sum(len(line["target_output_tokens"]) for line in forced[:3])).all()

    assert found["faithfulness"]["targets"] == "references" and found["faithfulness"]["sentences"] == 2
    faithful = pd.read_csv(mine / "faithfulness.csv", keep_default_na=False)
    assert set(faithful["scorer"]) == set(SOURCE_SCORERS) and set(faithful["removal"]) == {"hard", "mean", "soft"}
    assert (mine / "faithfulness.png").is_file() and len(pd.read_csv(mine / "faithfulness_sentences.csv")) == 2 * 9 * 4

    printed = caplog.text
    for value in ("sentences", "BLEU", "chrF", "AER", "chosen on validation", "for the diagonal", str(mine)):
        assert value in printed
    assert f"tensorboard --logdir {run.parent}" in printed


def test_a_run_trained_in_half_precision_is_evaluated_in_single(text, tmp_path):
    run = train_tiny(text, tmp_path, "half", **{"training.precision": "mixed_bfloat16", "training.max_updates": 2})
    assert read_json_object(run / "manifest.json")["precision"] == "mixed_bfloat16"
    model = load_run(run).model
    memory = model.encode(np.array([[4, 5, 3]]))
    assert model.dtype_policy.name == "float32"
    assert memory.states.dtype == "float32"
    assert model.decode(np.array([[2, 4]]), memory).states.dtype == "float32"

    # Without references there are translations and attention, and no scores.
    assert evaluate.main([str(run), "--source", str(text / "validation.en"), "--beam_size", "1"]) == 0
    folder = run / "evaluations/validation.en"
    assert read_json_object(folder / "metrics.json")["search"] == "greedy"
    assert not {"bleu", "loss", "alignment"} & read_json_object(folder / "metrics.json").keys()
    assert "reference" not in (folder / "translations.tsv").read_text().splitlines()[0].split("\t")
    assert (folder / "attention/manifest.json").is_file()


def test_what_is_required_is_in_translations_and_archive_and_what_is_banned_is_not(run, text, tmp_path):
    required = [["le", "gouvernement"], [], ["la commission"]]
    files = {"source": "".join(f"{line}\n" for line in first_lines("test.en", 3)), "ban": "de\n.\n"}
    files["require"] = "".join("\t".join(row) + "\n" for row in required)
    options = []
    for name, lines in files.items():
        (tmp_path / f"own.{name}").write_text(lines, encoding="utf-8")
        options += [f"--{name}", str(tmp_path / f"own.{name}")]
    assert evaluate.main([str(run), *options, "--beam_size", "5"]) == 0
    folder = run / "evaluations/own.source.require.ban"
    metrics = read_json_object(folder / "metrics.json")
    assert metrics["set"] == "own.source" and metrics["with_required"] == 2 and metrics["banned"] == ["de", "."]
    for record, phrases in zip(AttentionArchive(folder / "attention"), required, strict=True):
        assert record.required == phrases
        assert all(f" {phrase} " in f" {record.hypothesis} " for phrase in phrases)
        assert not {"de", "."} & set(record.hypothesis.split())


def test_a_head_chosen_on_the_set_itself_is_said_to_be(run):
    config = load_run_config(run / "config.yaml")
    trained = SimpleNamespace(config=config, directory=RunDirectory(run), reader=SimpleNamespace(segmenter=AT_SPACES))
    choose_on = {name: request.read_configured_set(trained, name, name).choose_on for name in ("test", "validation")}
    assert choose_on["test"].name == "validation"
    assert choose_on["validation"] is None  # alignment.py then calls it the set itself (optimistic)


LINES = ["the cat", "", "a line\u2028with a separator\x85inside", "   ", "I sing in France ."]


@pytest.fixture(scope="module")
def translations(run):
    """What the run's model makes of each of the lines."""
    return {line: found.text for line, found in zip(LINES, load_run(run).translator.translate(LINES), strict=True)}


def test_translate_answers_each_line_before_the_next_in_a_process_of_its_own(run, translations):
    command = [sys.executable, "-m", "qkv", "translate", str(run)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line in LINES[:3]:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{translations[line]}\n"
        rest, _ = process.communicate("\n".join(LINES[3:]).encode(), timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert rest.decode() == "".join(f"{translations[line]}\n" for line in LINES[3:])
    assert [not text for text in translations.values()] == [False, True, False, True, False]


def typed(monkeypatch, text, terminal=False):
    """Makes a text standard input."""
    stream = io.BytesIO(text.encode())
    stream.isatty = lambda: terminal
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))


def test_a_terminal_is_told_what_to_do_and_a_file_is_not(run, monkeypatch, capsysbinary):
    for terminal in (True, False):
        typed(monkeypatch, "the cat\n", terminal)
        assert translate.main([str(run)]) == 0
        assert (b"type a sentence; Ctrl-D ends\n" in capsysbinary.readouterr().err) == terminal


def test_the_seed_decides_what_is_sampled(run, monkeypatch, capsysbinary):
    def sample(seed):
        typed(monkeypatch, "the cat\nI sing in France .\n")
        assert translate.main([str(run), "--search", "sampling", "--seed", seed]) == 0
        return capsysbinary.readouterr().out

    assert sample("7") == sample("7") != sample("8")


@pytest.fixture(scope="module")
def normalizing(run, tmp_path_factory):
    """The run, with normalisation of what is typed."""
    copy = Path(shutil.copytree(run, tmp_path_factory.mktemp("normalizing") / "tiny"))
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    assert "  normalize: null\n" in config
    config = config.replace("  normalize: null\n", "  normalize: {lowercase: true, moses: true}\n")
    (copy / "config.yaml").write_text(config, encoding="utf-8")
    return copy


def test_typed_text_is_normalised_and_translations_made_plain_if_asked_for(normalizing, monkeypatch, capsysbinary):
    def translated(text, *options):
        typed(monkeypatch, text)
        assert translate.main([str(normalizing), "--beam_size", "1", *options]) == 0
        return capsysbinary.readouterr().out.decode()

    as_trained = translated("the cat 's dog sings , in France .\n", "--no_normalize")
    assert translated("The cat’s dog sings, in France.\n") == as_trained
    assert translated("The cat’s dog sings, in France.\n", "--no_normalize") != as_trained
    plain = detokenize(as_trained.strip(), "fr")
    assert translated("The cat’s dog sings, in France.\n", "--detokenize") == f"{plain}\n"


WRITTEN, READ = "The cat’s dog sings, in France.", "the cat 's dog sings , in France ."


def test_a_sentence_is_read_alike_by_every_command_and_from_python(normalizing, tmp_path, monkeypatch, capsysbinary):
    write_lines(tmp_path / "my.en", [WRITTEN])
    loaded = load_run(normalizing)
    (expected,) = loaded.translator.translate_ids(loaded.tokenizer.encode([READ]))[0]
    typed(monkeypatch, f"\ufeff{WRITTEN}\r\n")
    assert translate.main([str(normalizing)]) == 0
    assert capsysbinary.readouterr().out.decode() == f"{expected.text}\n"
    for name, options in (("typed", []), ("raw", ["--no_normalize"])):
        arguments = ["--source", str(tmp_path / "my.en"), "--name", name, *options]
        assert evaluate.main([str(normalizing), *arguments]) == 0
    folder = RunDirectory(normalizing).evaluation("typed").root
    assert read_translations(folder / "translations.tsv")["translation"].tolist() == [expected.text]
    raw = RunDirectory(normalizing).evaluation("raw").root
    assert read_translations(raw / "translations.tsv")["source"].tolist() == [WRITTEN]
    assert loaded.translator.translate([WRITTEN])[0].ids == expected.ids
    assert (
        cache_sentences(loaded.translator, [WRITTEN], ["*.weights"])[0].source_tokens
        == AttentionArchive(folder / "attention")[0].source_tokens
    )
    answer = LiveRun(loaded, "live").answer(Question(text=WRITTEN))
    assert answer.record.source == READ and answer.facts["difference"] is None


def test_text_is_normalised_for_alignment_and_linked_by_the_words_as_they_were_written(normalizing):
    text = AlignedText([WRITTEN, READ], ["Le chien, en France.", "le chien , en France ."])
    run = load_run(normalizing)
    direction = Direction(run, text, find_readout(run, "0,0,output"), normalizes=True)
    written, read = direction.records()
    assert (written.source, written.hypothesis) == (read.source, read.hypothesis) == (READ, "le chien , en France .")
    assert written.source_tokens == read.source_tokens
    assert set(zip(read.source_words, written.source_words, strict=True)) == {
        *enumerate([0, 1, 1, 2, 3, 3, 4, 5, 5]),
        (None, None),
    }
    assert set(zip(read.target_words, written.target_words, strict=True)) == {
        *enumerate([0, 1, 1, 2, 3, 3]),
        (None, None),
    }


def test_words_keep_their_numbers_whatever_invisible_characters_are_in_the_text(normalizing):
    hidden = "\ufeffThe c\xadat’s \u200b dog\u200b sings\u200d, in\u202e France.\xad"
    target = "Le\xad chien, en \xad France."
    run = load_run(normalizing)
    for normalizes in (True, False):
        text = AlignedText([hidden, WRITTEN], [target, "Le chien, en France."])
        direction = Direction(run, text, find_readout(run, "0,0,output"), normalizes=normalizes)
        found, plain = direction.records()
        assert found.source_tokens == plain.source_tokens and found.target_output_tokens == plain.target_output_tokens
        source, target_words = ({None: None} | dict(enumerate(n)) for n in ([0, 1, 3, 4, 5, 6], [0, 1, 2, 4]))
        assert found.source_words == [source[word] for word in plain.source_words]
        assert found.target_words == [target_words[word] for word in plain.target_words]


def test_gold_links_keep_the_words_that_they_count(normalizing, tmp_path):
    for name, line in (("my.en", WRITTEN), ("my.fr", "Le chien, en France."), ("my.align", "0-0 5-3")):
        write_lines(tmp_path / name, [line])
    given = {"source": "my.en", "reference": "my.fr", "alignments": "my.align"}
    options = [part for key, name in given.items() for part in (f"--{key}", str(tmp_path / name))]
    assert evaluate.main([str(normalizing), *options, "--name", "gold", "--forced"]) == 0
    record = AttentionArchive(RunDirectory(normalizing).evaluation("gold").attention)[0]
    assert (record.source, record.hypothesis) == ("the cat’s dog sings, in France.", "le chien, en France.")
    assert max(filter(None, record.source_words)) == 5


def test_what_a_person_writes_is_warned_of_with_its_line(normalizing, tmp_path, capsys, caplog):
    long = " ".join(["the cat"] * 300)
    for name, lines in (("my.en", ["the cat", long, "Кот"]), ("my.fr", ["le chat", "le chat", "\t"])):
        write_lines(tmp_path / name, lines)
    both = ["--source", str(tmp_path / "my.en"), "--target", str(tmp_path / "my.fr")]
    assert align.main([str(normalizing), *both, "--at", "0,0,output"]) == 0
    assert len(capsys.readouterr().out.split("\n")) == 4
    assert f"warning: {tmp_path / 'my.en'}:3: the model does not know 'к', 'о', 'т', which" in caplog.text
    assert re.search(rf"{tmp_path / 'my.en'}:2: [0-9]+ tokens; the model reads the first [0-9]+ and leav", caplog.text)


def test_a_run_that_does_not_normalise_warns_of_typed_text_once(run, monkeypatch, caplog):
    typed(monkeypatch, "The cat.\nThe dog.\n")
    assert translate.main([str(run), "--beam_size", "1"]) == 0
    (warning,) = [message for message in caplog.messages if "does not look like" in message]
    assert "marks are attached to words; expected sentences such as: " in warning


def test_n_best_translations_are_printed_in_moses_format(run, translations, monkeypatch, capsysbinary):
    lines = ["the cat", "", "I sing in France ."]
    typed(monkeypatch, "\n".join(lines))
    assert translate.main([str(run), "--n_best", "3"]) == 0
    printed = [line.split(" ||| ") for line in capsysbinary.readouterr().out.decode().splitlines()]
    assert [int(number) for number, *_ in printed] == [0, 0, 0, 1, 2, 2, 2]
    assert [printed[0][1], printed[3][1], printed[4][1]] == [translations[line] for line in lines]
    for _, text, features, score in printed:
        assert (features.startswith("LogProbability= ") and float(features.split()[1]) <= float(score) <= 0) or not text
    scores = [float(score) for *_, score in printed]
    assert scores[:3] == sorted(scores[:3], reverse=True) and scores[4:] == sorted(scores[4:], reverse=True)


def test_align_links_the_words_of_any_parallel_text(run, text, metrics, tmp_path, capsys, caplog, monkeypatch):
    files = ["--source", str(text / "test.en"), "--target", str(text / "test.fr")]
    alignment = metrics["alignment"]
    at = f"{alignment['layer']},{alignment['head']},{alignment['side']},{alignment['linked']},{alignment['site']}"
    assert align.main([str(run), *files]) == 0
    written = capsys.readouterr().out
    (tmp_path / "links").write_text(written, encoding="utf-8")
    found = read_pharaoh(tmp_path / "links")
    assert len(found) == ORDINARY + len(SOURCES)
    assert found[ORDINARY + SOURCES.index("")].possible == frozenset()
    score = alignment_error_rate([sentence.sure for sentence in found], read_pharaoh(text / "test.align"))
    assert 100 * score.aer == pytest.approx(alignment["aer"])  # chosen on the same gold alignments as evaluate.py
    monkeypatch.setattr(align, "PROGRESS_PAIRS", 8)
    caplog.set_level("INFO")
    assert align.main([str(run), "--set", "test", "--at", at]) == 0
    assert capsys.readouterr().out == written
    assert f"8 of {len(found)} pairs" in caplog.messages

    # A word's links are those between its subwords, where every word is linked with the ones that it attends to at all.
    at = f"{alignment['layer']},{alignment['head']},output,over-0.1"
    assert align.main([str(run), *files, "--at", at, "--subwords"]) == 0
    tokens = capsys.readouterr().out.splitlines()
    assert len(tokens) == len(found)
    longest = max(int(link.split("-")[1]) for line in tokens for link in line.split())
    assert longest > max(j for sentence in found for _, j in sentence.possible)

    assert align.main([str(run), str(run), *files, "--subwords"]) == 2
    assert "--subwords needs a single run: each cuts words into other subwords" in capsys.readouterr().err

    # The run itself stands in for one of the opposite direction: its links are turned round, then put together.
    both = ["--symmetrise", "union", "--at", "0,0,output", "--reverse_at", "0,1,output"]
    assert align.main([str(run), str(run), *files, *both]) == 0
    union = [
        {tuple(map(int, link.split("-"))) for link in line.split()} for line in capsys.readouterr().out.split("\n")
    ]
    backward = ["--source", str(text / "test.fr"), "--target", str(text / "test.en"), "--at", "0,1,output"]
    assert align.main([str(run), *files, "--at", "0,0,output"]) == align.main([str(run), *backward]) == 0
    alone = capsys.readouterr().out.split("\n")
    for i in range(ORDINARY + len(SOURCES)):
        one, other = ([tuple(map(int, link.split("-"))) for link in alone[k].split()] for k in (i, i + len(found)))
        assert union[i] == {*one, *((j, i) for i, j in other)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--at", "0,output"], "expected LAYER,HEAD,SIDE such as 1,mean,output or 2,0,input, perhaps with ,LINKS"),
        (["--at", "7,0,output"], "has 1 layers of 2 heads, from 0; found '7,0,output'"),
        (["--at", "0,mean,above"], "found '0,mean,above'"),
        (["--at", "0,mean,input,target,nowhere"], "found '0,mean,input,target,nowhere'"),
        (["--at", "0,mean,input,target,norms,more"], "and ,SITE (cross, norms, gradients); found"),
        (["--reverse_at", "0,0,output"], "--reverse_at needs a run from target to source"),
    ],
)
def test_a_place_that_there_is_not_is_one_message(run, text, options, message, capsys):
    files = ["--source", str(text / "test.en"), "--target", str(text / "test.fr")]
    assert align.main([str(run), *files, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--source", FILE], ["--source", FILE, "--target", FILE, "--set", "test"]])
def test_align_wants_the_text_in_one_way(run, options, capsys):
    assert align.main([str(run), *options]) == 2
    assert "expected a text to align: --source and --target, or --set" in capsys.readouterr().err


def test_one_page_shows_several_runs(run, evaluated, tmp_path, capsys):
    page = tmp_path / "both.html"
    assert view.main([str(run), str(run), "--sentences", "3", "--output", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1])
    assert [[sentence["id"] for sentence in one["sentences"]] for one in data["runs"]] == [[0, 1, 2]] * 2
    assert all(isinstance(sentence["score"], float) for sentence in data["runs"][0]["sentences"])
    assert view.main([str(run), "--set", "nothing"]) == 2
    assert "no attention archive" in capsys.readouterr().err
