"""A list of corpora is prepared with its tags and shares; one without weights and tags is as one file."""

import json

import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.text import shards
from qkv.text.corpora import corpus as corpora
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.prepare import prepare_text
from qkv.text.training_text import load_text
from qkv.training.batches import TrainingBatches
from tests.support.tiny_runs import lines_of, small_config, write_small_corpus

TAGGED = {"data.max_source_tokens": 60, "data.joined_pairs": 0.5, "data.max_target_tokens": 60}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The small corpus, and the same training text in three files of 50, 30 and 40 lines."""
    folder = write_small_corpus(tmp_path_factory.mktemp("text"))
    for suffix in ("en", "fr", "align"):
        lines = (folder / f"train.{suffix}").read_text(encoding="utf-8").splitlines(keepends=True)
        for name, part in (("part-1", lines[:50]), ("part-2", lines[50:80]), ("other", lines[80:])):
            (folder / f"{name}.{suffix}").write_text("".join(part), encoding="utf-8")
    return folder


def files(corpus, name, **further):
    return {"source": str(corpus / f"{name}.en"), "target": str(corpus / f"{name}.fr")} | further


def prepared(corpus, folder, name, train, **changes):
    config = small_config(corpus, folder, name, {"data.train": train} | changes)
    return config, prepare_text(config, RunDirectory.create(folder / name))


def report_of(folder, name):
    return json.loads((folder / name / "corpus_report.json").read_text())


def encoded_bytes(folder, name):
    return {path.name: path.read_bytes() for path in (folder / name / "encoded").glob("*.npy")}


def test_a_list_without_weights_and_patterns_are_as_one_file(corpus, tmp_path):
    links = {"training.guided_attention": {"weight": 0.1}, "data.joined_pairs": 0.3}
    train = [
        files(corpus, "part-1", alignments=str(corpus / "part-1.align")),
        files(corpus, "part-2", alignments=str(corpus / "part-2.align")),
        files(corpus, "other", alignments=str(corpus / "other.align")),
    ]
    shards = files(corpus, "[p]art-*", alignments=str(corpus / "[p]art-*.align"))
    one = files(corpus, "train", alignments=str(corpus / "train.align"))
    expected = prepared(corpus, tmp_path, "one", one, **links)[1]
    for name, value in (("list", train), ("patterns", [shards, train[2]])):
        config, text = prepared(corpus, tmp_path, name, value, **links)
        assert text.mixture is None
        assert encoded_bytes(tmp_path, name) == encoded_bytes(tmp_path, "one")
        assert (tmp_path / name / "tokenizer").is_dir() and text.tokenizer.model == expected.tokenizer.model
        assert load_text(config, RunDirectory(tmp_path / name)).mixture is None
        found = report_of(tmp_path, name)
        assert [one["pairs"] for one in found["corpora"]] == ([50, 30, 40] if name == "list" else [80, 40])
        assert sum(one["share"] for one in found["corpora"]) == pytest.approx(1, abs=1e-5)
    assert "corpora" not in report_of(tmp_path, "one")


@pytest.fixture(scope="module")
def weighted(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("weighted")
    train = [
        files(corpus, "part-1", weight=1),
        files(corpus, "part-2", weight=0, tag="<no>"),
        files(corpus, "other", weight=3, tag="<back>"),
    ]
    return folder, *prepared(corpus, folder, "run", train, **TAGGED | {"model.max_positions": 64})


def test_sources_have_the_tags_of_their_corpora_joined_ones_too(weighted):
    folder, _, text = weighted
    report = report_of(folder, "run")
    tags = text.tokenizer.tags
    assert list(tags) == ["<no>", "<back>"]
    kept, joined = ([one[key] for one in report["corpora"]] for key in ("kept", "joined"))
    assert sum(joined) == report["joined"] > 0
    sources = [row.tolist() for row in text.segmentations[0].source]
    expected = [
        tag
        for counts in (kept, joined)
        for tag, n in zip([None, *tags.values()], counts, strict=True)
        for _ in range(n)
    ]
    assert len(sources) == len(expected)
    for ids, tag in zip(sources, expected, strict=True):
        assert (ids[0] == tag) if tag else not set(ids) & set(tags.values())
        assert sum(token in tags.values() for token in ids) == (tag is not None)
    assert not {token for row in text.segmentations[0].target for token in row.tolist()} & set(tags.values())


def test_epochs_have_the_shares_of_the_weights(weighted):
    folder, config, text = weighted
    assert text.mixture.shares == [0.25, 0.0, 0.75]
    batches = TrainingBatches(
        text.segmentations,
        tf.distribute.get_strategy(),
        batch_tokens=600,
        length_multiple=1,
        seed=1,
        mixture=load_text(config, RunDirectory(folder / "run")).mixture,
    )
    back = text.tokenizer.tags["<back>"]
    orders = []
    for epoch in range(2):
        first = np.concatenate([batch.source.numpy()[:, 0] for batch in batches.epoch(epoch)])
        orders.append(first.tolist())
        assert len(first) == text.mixture.pairs
        assert abs((first == back).mean() - 0.75) < 0.01
    assert orders[0] != orders[1]
    report = report_of(folder, "run")["corpora"]
    assert [one["share"] for one in report] == [0.25, 0, 0.75] and report[1]["repeats"] == 0
    assert report[2]["repeats"] == pytest.approx(
        text.mixture.counts[2] / (report[2]["kept"] + report[2]["joined"]), abs=1e-4
    )


def test_validation_has_the_tag_of_decoding_or_its_own(corpus, tmp_path):
    lines = (corpus / "validation.en").read_text(encoding="utf-8").splitlines()
    (tmp_path / "validation.en").write_text(
        "".join(f"<back> {line}\n" if n % 2 else f"{line}\n" for n, line in enumerate(lines))
    )
    train = [files(corpus, "part-1", tag="<de>"), files(corpus, "other", tag="<back>")]
    for name, tag in (("plain", None), ("tagged", "<de>")):
        changes = {"data.validation.source": str(tmp_path / "validation.en"), "decoding.tag": tag}
        _, text = prepared(corpus, tmp_path, name, train, **changes)
        ids = text.tokenizer.tags
        first = [row[0] for row in text.validation_pairs.source]
        assert [token if token in ids.values() else None for token in first] == [
            ids["<back>"] if n % 2 else ids.get(tag) for n in range(len(lines))
        ]
        assert text.tokenizer.tag == tag


def test_a_sentence_of_the_test_set_is_found_whatever_tag_is_before_it(corpus, tmp_path):
    lines = (corpus / "other.en").read_text(encoding="utf-8").splitlines()[:10]
    (tmp_path / "test.en").write_text("".join(f"<back> {line}\n" for line in lines))
    train = [files(corpus, "part-1"), files(corpus, "other", tag="<back>")]
    prepared(corpus, tmp_path, "run", train, **{"data.test.source": str(tmp_path / "test.en")})
    assert report_of(tmp_path, "run")["overlap"]["test"]["sources"] == 10


@pytest.mark.parametrize(("unit", "moved"), [(None, 1), ("spaces", 1), ("subwords", 1), ("characters", len("<back>"))])
def test_held_out_pairs_have_their_tags_as_text_and_their_links_moved(corpus, tmp_path, unit, moved):
    train = [
        files(corpus, "part-1", alignments=str(corpus / "part-1.align")),
        files(corpus, "other", tag="<back>", alignments=str(corpus / "other.align")),
    ]
    prepared(corpus, tmp_path, "run", train, **{"data.validation": {"pairs": 30}, "data.words": {"source": unit}})
    held = tmp_path / "run" / "held_out"
    sources, targets = (lines_of(held / f"validation.{name}") for name in ("source", "target"))
    known = {}
    for name in ("part-1", "other"):
        sides = lines_of(corpus / f"{name}.en"), lines_of(corpus / f"{name}.fr")
        for source, target, links in zip(*sides, read_pharaoh(corpus / f"{name}.align"), strict=True):
            known["<back> " * (name == "other") + source, target] = links.possible
    assert 5 < sum(source.startswith("<back>") for source in sources) < 25
    for source, target, links in zip(sources, targets, read_pharaoh(held / "validation.alignments"), strict=True):
        shift = moved * source.startswith("<back>")
        assert links.possible == {(i + shift, j) for i, j in known[source, target]}
    lines = report_of(tmp_path, "run")["held_out"]["validation"]["lines"]
    assert len(lines) == 30 and lines[0].endswith(tuple("0123456789")) and str(corpus) in lines[0]


def test_word_links_follow_the_tags(corpus, tmp_path):
    train = [files(corpus, "part-1", alignments=str(corpus / "part-1.align"))]
    guided = {"training.guided_attention": {"weight": 0.1}, "tokenizer.vocabulary_size": 91}
    _, plain = prepared(corpus, tmp_path, "plain", train, **guided | {"tokenizer.vocabulary_size": 90})
    _, tagged = prepared(corpus, tmp_path, "tagged", [train[0] | {"tag": "<x>"}], **guided)
    for one, other in zip(plain.segmentations[0].links, tagged.segmentations[0].links, strict=True):
        assert (one.reshape(-1, 2) + [1, 0]).ravel().tolist() == other.tolist()


def test_filters_leave_out_pairs_and_are_counted_by_reason_and_corpus(corpus, tmp_path):
    for name, text in (
        ("odd.en", "12 cats\nsame\nA cat .\na cat\n"),
        ("odd.fr", "21 chats\nSAME\nUn chat\nun chat !\n"),
    ):
        (tmp_path / name).write_text(text)
    odd = {"source": str(tmp_path / "odd.en"), "target": str(tmp_path / "odd.fr")}
    filters = {"identical": True, "digits": True, "near_duplicates": True, "source_script": "latin"}
    _, text = prepared(corpus, tmp_path, "run", [files(corpus, "part-1"), odd], **{"data.filters": filters})
    report = report_of(tmp_path, "run")
    assert report["corpora"][1]["filtered"] == {"script": 0, "identical": 1, "digits": 0, "near_duplicate": 1}
    assert report["lines"]["identical"] == [f"{odd['source']} + {odd['target']}:2"]
    assert report["kept"] == len(text.segmentations[0].source)
    assert report["corpora"][1]["kept"] == 2


def test_a_weighted_corpus_of_which_nothing_is_left_is_refused(corpus, tmp_path):
    for name in ("empty.en", "empty.fr"):
        (tmp_path / name).write_text("\n\n")
    empty = {"source": str(tmp_path / "empty.en"), "target": str(tmp_path / "empty.fr"), "weight": 1}
    with pytest.raises(InputError, match=r"empty.fr: no pair of this corpus is left, and its weight is not 0"):
        prepared(corpus, tmp_path, "run", [files(corpus, "part-1", weight=1), empty])
    prepared(corpus, tmp_path, "other", [files(corpus, "part-1", weight=1), empty | {"weight": 0}])


@pytest.mark.parametrize("damage", ["{}", '{"corpora": []}', '{"corpora": [{"kept": 1, "joined": 0}]}'])
def test_a_report_that_does_not_fit_the_pairs_is_refused(weighted, damage):
    folder, config, _ = weighted
    run = RunDirectory(folder / "run")
    before = run.corpus_report.read_bytes()
    run.corpus_report.write_text(damage)
    try:
        with pytest.raises(InputError, match=r"corpus_report\.json: damaged, or of another run"):
            load_text(config, run)
    finally:
        run.corpus_report.write_bytes(before)


def test_runs_with_the_same_text_share_a_cache(corpus, tmp_path, monkeypatch):
    train = [files(corpus, "part-1"), files(corpus, "other")]
    prepared(corpus, tmp_path, "alone", train)
    cached = {"data.cache": str(tmp_path / "cache")}
    prepared(corpus, tmp_path, "first", train, **cached)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(shards.ShardReader, "__call__", lambda *_: 1 / 0)
        prepared(corpus, tmp_path, "second", train, **cached | {"model.d_model": 16, "run.seed": 1})
        with pytest.raises(ZeroDivisionError):
            prepared(corpus, tmp_path, "third", [train[1], train[0]], **cached)
    for name in ("first", "second"):
        assert encoded_bytes(tmp_path, name) == encoded_bytes(tmp_path, "alone")


def test_a_preparation_that_was_killed_goes_on_by_its_shards(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "SHARD_PAIRS", 16)
    monkeypatch.setattr(shards, "usable_cores", lambda: 1)
    prepared(corpus, tmp_path, "whole", files(corpus, "train"))
    read, call = [], shards.ShardReader.__call__

    def read_or_die(reader, pairs):
        if len(read) % 3 == 2:
            read.append(None)
            raise KeyboardInterrupt
        read.append(pairs[0][0])
        return call(reader, pairs)

    monkeypatch.setattr(shards.ShardReader, "__call__", read_or_die)
    config = small_config(corpus, tmp_path, "killed", {"data.train": files(corpus, "train")})
    run = RunDirectory.create(tmp_path / "killed")
    kills = 0
    while not run.corpus_report.is_file():
        try:
            prepare_text(config, run)
        except KeyboardInterrupt:
            kills += 1
    made = [first for first in read if first is not None]
    assert kills == 3 and len(made) == len(set(made)) == 8
    assert encoded_bytes(tmp_path, "killed") == encoded_bytes(tmp_path, "whole")
    assert not run.shards.exists()
