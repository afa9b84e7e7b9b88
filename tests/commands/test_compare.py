"""Runs side by side: sacreBLEU's own scores, p-values that tell a difference from none, and what is not compared."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sacrebleu

from qkv.commands import compare, measure
from qkv.config.run import dump, make_run_config
from qkv.inspection import Sentence, write_archive
from tests.support.processes import read_pipe
from tests.support.tiny_runs import small_settings, write_small_corpus

SENTENCES = [
    f"the {a} {b} sees a {c} tree near the {d} ." for a in "abcd" for b in "efgh" for c in "ijk" for d in "lmn"
]


def worsened(every, first=0):
    """The references with a word swapped in every so many sentences."""
    return [text.replace("sees a", "saw one") if i % every == first else text for i, text in enumerate(SENTENCES)]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    corpus = write_small_corpus(folder / "text")

    def run(
        name, translations, seed=1, references=SENTENCES, evaluation="test", metrics=None, corpus_sha256="a", **changes
    ):
        settings = small_settings(corpus, folder, {"run.seed": seed} | changes)
        root = folder / name
        evaluation = root / "evaluations" / evaluation
        evaluation.mkdir(parents=True, exist_ok=True)
        (root / "config.yaml").write_text(dump(make_run_config(settings, {}, name)), encoding="utf-8")
        (root / "manifest.json").write_text(
            json.dumps({"parameters": 12345, "data_sha256": {"train.en": corpus_sha256}})
        )
        pd.DataFrame({"update": [5, 10], "minutes": [1.5, 3.25]}).to_csv(root / "history.csv", index=False)
        metrics = {"search": "beam", "loss": 1.25, "decoding": {"beam_size": 5}} | (metrics or {})
        (evaluation / "metrics.json").write_text(json.dumps(metrics))
        table = pd.DataFrame({"source": SENTENCES, "reference": references, "translation": translations})
        table.to_csv(evaluation / "translations.tsv", sep="\t", index=False, quoting=csv.QUOTE_NONE)
        return root

    return run


def test_the_table_is_written_through_a_link_and_into_a_pipe(make, tmp_path):
    runs = [str(make(name, worsened(2))) for name in ("one", "two")]
    (tmp_path / "link.csv").symlink_to("table.csv")
    with read_pipe(tmp_path / "pipe") as read:
        for name in ("link.csv", "pipe"):
            assert compare.main([*runs, "--csv", str(tmp_path / name)]) == 0
    assert (tmp_path / "link.csv").is_symlink() and len(pd.read_csv(tmp_path / "table.csv")) == 2
    assert read == [(tmp_path / "table.csv").read_bytes()]


def test_scores_are_those_of_sacrebleu_and_equal_translations_have_p_1(make, tmp_path, capsys):
    found = [worsened(12), worsened(2), worsened(12, first=5), worsened(12)]
    good, bad = make("good", found[0]), make("bad", found[1], **{"model.d_ff": 16})
    alike, same = make("alike", found[2], seed=2), make("same", found[3], seed=3)
    runs = [str(run) for run in (good, bad, alike, same)]
    assert compare.main([*runs, "--csv", str(tmp_path / "table.csv")]) == 0
    table = pd.read_csv(tmp_path / "table.csv")
    for row, translations in enumerate(found):
        expected = sacrebleu.BLEU(tokenize="none", force=True).corpus_score(translations, [SENTENCES]).score
        assert table["BLEU"][row] == pytest.approx(expected)
        assert table["chrF"][row] == pytest.approx(sacrebleu.CHRF().corpus_score(translations, [SENTENCES]).score)
    for p in ("BLEU p", "chrF p"):
        assert pd.isna(table[p][0]) and table[p][1] < 0.01 < 0.2 < table[p][2] <= table[p][3] == 1
    assert (table["BLEU ±"] > 0).all()
    columns = ["seed", "parameters", "minutes", "updates"]
    assert table[columns].to_numpy().tolist() == [[seed, 12345, 3.25, 10] for seed in (1, 1, 2, 3)]
    printed = capsys.readouterr().out
    assert "144 sentences" in printed and "beam 5" in printed
    assert f"{good} and 2 more, seeds 1, 2, 3: mean BLEU" in printed


def test_a_gate_fails_where_a_run_is_worse_and_not_by_chance(make, capsys):
    good, bad, alike = (
        str(make(f"gate {name}", worsened(*how))) for name, how in (("good", [12]), ("bad", [2]), ("alike", [12, 5]))
    )
    assert compare.main([good, alike, "--fail_if_worse"]) == compare.main([bad, good, "--fail_if_worse"]) == 0
    assert compare.main([good, bad]) == 0
    assert not capsys.readouterr().err
    assert compare.main([good, alike, bad, "--fail_if_worse"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all("gate bad is worse than " in line and line.endswith("p 0.001") for line in said)


def test_an_ensemble_is_no_seed_of_its_first_run_and_has_the_parameters_of_all_models(make, tmp_path, capsys):
    members = [{"name": name, "parameters": 12345} for name in ("first", "second")]
    runs = [make("first", worsened(3)), make("second", worsened(4), seed=2)]
    make("second", worsened(5), seed=2, evaluation="together", metrics={"members": members})
    evaluations = [str(runs[0]), str(runs[1] / "evaluations/together")]
    assert compare.main([*evaluations, "--csv", str(tmp_path / "table.csv")]) == 0
    printed = capsys.readouterr().out
    assert "ensemble of 2, beam 5" in printed and "mean BLEU" not in printed
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["parameters"].tolist() == [12345, 24690]
    assert table["seed"].isna().tolist() == table["minutes"].isna().tolist() == [False, True]


def test_two_evaluations_of_one_run_can_be_compared_and_are_not_taken_for_seeds(make, capsys):
    run = make("both", worsened(3))
    decoding = {"beam_size": 8, "length_penalty": 1.4}
    make("both", worsened(4), evaluation="wide", metrics={"decoding": decoding, "alignment": {"aer": 12.345}})
    evaluations = [str(run), str(run / "evaluations/test"), str(run / "evaluations/wide")]
    assert compare.main(evaluations) == 0
    printed = capsys.readouterr().out
    assert "mean BLEU" not in printed
    for text in (*evaluations, "beam 5", "beam 8, length penalty 1.4", "AER", "12.35"):
        assert text in printed


@pytest.mark.parametrize(
    "changes",
    [
        {"model.d_ff": 16},
        {"corpus_sha256": "b"},
        {"metrics": {"checkpoint": "checkpoints/best.npz"}},
        {"metrics": {"decoding": {"beam_size": 6}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_runs_that_differ_in_more_than_their_seed_have_no_mean(make, capsys, changes):
    one, other = make("one", worsened(3)), make("other", worsened(3), seed=2, **changes)
    assert compare.main([str(one), str(other)]) == 0
    assert "mean BLEU" not in capsys.readouterr().out


def test_a_seed_counts_once_in_the_mean(make, capsys):
    runs = [make(f"seed {i}", worsened(i + 2), seed=seed) for i, seed in enumerate((1, 1, 2))]
    assert compare.main([str(run) for run in runs]) == 0
    printed = capsys.readouterr().out
    means = [sacrebleu.BLEU(tokenize="none", force=True).corpus_score(worsened(n), [SENTENCES]).score for n in (2, 4)]
    assert f"{runs[0]} and 1 more, seeds 1, 2: mean BLEU {sum(means) / 2:.2f}" in printed
    assert "AER" not in printed


def test_seeds_that_a_limit_of_time_has_ended_are_named(make, capsys):
    runs = [make(f"limit {seed}", worsened(3), seed=seed) for seed in (1, 2)]
    assert compare.main([str(run) for run in runs]) == 0
    assert "more than their seed differs" not in capsys.readouterr().out
    pd.DataFrame({"update": [5, 8], "minutes": [1.5, 3.0]}).to_csv(runs[1] / "history.csv", index=False)
    assert compare.main([str(run) for run in runs]) == 0
    printed = capsys.readouterr().out
    assert f"{runs[0]} and 1 more ended after 10, 8 updates, so more than their seed differs" in printed
    assert "means over seeds (their number)" in printed and "BLEU" in printed.split("means over seeds")[1]


def test_evaluations_that_cannot_be_compared_end_with_one_message(make, tmp_path, capsys):
    run = make("run", worsened(3))
    elsewhere = make("elsewhere", worsened(3), references=worsened(4))
    raw = make("raw", worsened(3), **{"data.tokenized": False})
    forced = make("forced", worsened(3), metrics={"mode": "forced"})
    translated = make("translated", worsened(3), metrics={"mode": "translated"})
    by_character = make("by character", worsened(3), metrics={"bleu_tokenizer": "char"})
    bare = make("bare", worsened(3))
    (bare / "evaluations/test/metrics.json").unlink()
    broken = make("broken", worsened(3))
    (broken / "evaluations/test/translations.tsv").write_text("source\ttranslation\na\tb\n")
    for arguments, message in [
        ([run], "expected at least two runs"),
        ([run, tmp_path / "none"], "none: no such run"),
        ([run, elsewhere], "have different reference sentences"),
        ([run, raw], "have BLEU by different tokenizers, 13a and none"),
        ([run, by_character], "have BLEU by different tokenizers, char and none"),
        ([translated, forced], "forced/evaluations/test is forced, and"),
        ([run, bare], "metrics.json is missing; evaluate the run first: qkv evaluate"),
        ([run, broken], "translations.tsv: no column 'reference'"),
    ]:
        assert compare.main([str(argument) for argument in arguments]) == 2
        assert message in capsys.readouterr().err


def write_archive_of(folder, translations, mode="greedy", references=SENTENCES):
    """An archive without a run, of one token a sentence."""
    sentences = [
        Sentence(["a", "</s>"], ["b"], source=source, target=target, reference=reference)
        for source, target, reference in zip(SENTENCES, translations, references, strict=True)
    ]
    weights = [np.full((1, 1, 1, 2), 0.5)] * len(sentences)
    write_archive(folder, sentences, weights, marks="none", mode=mode)
    return str(folder)


def test_an_archive_without_a_run_is_compared_with_a_run_by_the_runs_tokenizer(make, tmp_path, capsys):
    found = [worsened(12), worsened(2)]
    run, archive = str(make("trained", found[0])), write_archive_of(tmp_path / "archive", found[1])
    for paths, order in (([run, archive], found), ([archive, run], found[::-1])):
        assert compare.main([*paths, "--csv", str(tmp_path / "table.csv")]) == 0
        table = pd.read_csv(tmp_path / "table.csv")
        expected = [sacrebleu.BLEU(tokenize="none", force=True).corpus_score(one, [SENTENCES]).score for one in order]
        assert table["BLEU"].tolist() == pytest.approx(expected)
        place = paths.index(run)
        assert pd.read_csv(tmp_path / "table.csv", dtype=str)["seed"][place] == "1"
        assert table["minutes"][place] == 3.25
        assert table.iloc[1 - place][["seed", "minutes", "parameters", "updates", "loss"]].isna().all()
    printed = capsys.readouterr().out
    assert "144 sentences; p against the first" in printed and "<NA>" not in printed and "nan" not in printed.lower()


def test_archives_alone_have_the_usual_tokenizer_and_no_columns_of_runs(tmp_path, capsys):
    paths = [write_archive_of(tmp_path / name, worsened(every)) for name, every in (("a", 12), ("b", 2))]
    assert compare.main(paths) == 0
    printed = capsys.readouterr().out
    expected = sacrebleu.BLEU(tokenize="13a").corpus_score(worsened(12), [SENTENCES]).score
    assert f"{expected:.2f}" in printed and "greedy" in printed
    assert not {"seed", "minutes", "loss", "AER"} & set(printed.split())


def test_archives_that_cannot_be_compared_are_refused(make, tmp_path, capsys):
    good, empty = write_archive_of(tmp_path / "good", worsened(12)), tmp_path / "empty"
    write_archive(empty, [], [])
    for other, message in {
        write_archive_of(tmp_path / "forced", SENTENCES, "forced"): "is forced, and",
        write_archive_of(tmp_path / "bare", SENTENCES, references=[None] * 144): "sentence 0 has no reference",
        write_archive_of(tmp_path / "other", SENTENCES, references=worsened(9)): "have different reference sentences",
        str(empty): "empty: no sentences to compare",
    }.items():
        assert compare.main([good, other]) == 2
        assert message in capsys.readouterr().err


def test_an_archive_that_was_measured_with_another_tokenizer_is_refused(make, tmp_path, capsys):
    run, archive = str(make("plain", worsened(12))), write_archive_of(tmp_path / "archive", worsened(2))
    assert measure.main([archive, "--bleu_tokenizer", "char"]) == 0
    assert compare.main([run, archive]) == 2
    assert "have BLEU by different tokenizers, char and none" in capsys.readouterr().err


def counted(run, in_sure, sure=4):
    """Writes what 144 sentences count in the error rate: 4 links each, 4 sure ones."""
    table = pd.DataFrame({"id": range(144), "layer": 0, "head": "mean", "links": 4, "sure": sure})
    table = table.assign(links_in_sure=in_sure, links_in_possible=in_sure)
    table.to_csv(run / "evaluations/test/sentence_alignment.csv", index=False)
    return str(run)


def test_error_rates_have_intervals_and_p_where_sentences_were_kept(make, tmp_path, capsys):
    random = np.random.default_rng(1)
    first = random.integers(0, 4, size=144)
    kept = [first, np.roll(first, 1), first // 2]

    def run(name, in_sure):
        alignment = {"aer": 100 * (1 - 2 * in_sure.sum() / (8 * 144)), "layer": 0, "head": "mean", "sentences": 144}
        return make(f"aer {name}", worsened(3), metrics={"alignment": alignment})

    runs = [counted(run(name, in_sure), in_sure) for name, in_sure in zip("abc", kept, strict=True)]
    old = str(run("old", kept[0]))
    other_gold = counted(run("gold", kept[0]), kept[0], sure=5)
    assert compare.main([*runs, old, other_gold, "--csv", str(tmp_path / "table.csv")]) == 0
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["AER p"].isna().tolist() == [True, False, False, True, True]
    assert table["AER p"][1] > 0.9 and table["AER p"][2] < 0.01
    assert (table["AER ±"][:3] > 0).all() and np.isnan(table["AER ±"][3])
    printed = capsys.readouterr().out
    assert "aer b: AER" in printed and "on 144 sentences may not differ at all (p 1.00" in printed
    assert "aer c: AER" not in printed and "aer old: no interval of AER" in printed
    for text in ("id,layer\n0,0\n", "id,layer,head,links,sure,links_in_sure,links_in_possible\n0,0,mean,1,1,1,1\n"):
        (Path(runs[1]) / "evaluations/test/sentence_alignment.csv").write_text(text, encoding="utf-8")
        assert compare.main(runs) == 2
        assert "sentence_alignment.csv" in capsys.readouterr().err
