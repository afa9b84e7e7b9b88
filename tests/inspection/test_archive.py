import copy
import dataclasses
import json
import pickle
import re

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection import ArchiveWriter, AttentionArchive, archive
from qkv.inspection.archive import parse_line


def write(path, records, sentences_per_shard=3, manifest=None):
    with ArchiveWriter(path, manifest=manifest or {"model": "abc"}, sentences_per_shard=sentences_per_shard) as writer:
        for record in records:
            writer.append(record)


@pytest.fixture
def records(make_record):
    """Seven sentences, every one with its own lengths, ids with gaps and out of order."""
    return [
        make_record(id_, source_words=(*range(2 + n % 3), None), target_words=(*range(4 + n), None))
        for n, id_ in enumerate((5, 3, 40, 41, 42, 7, 1_000_000))
    ]


def assert_same(read, written):
    for field in dataclasses.fields(written):
        if field.name != "attention":
            assert getattr(read, field.name) == getattr(written, field.name), field.name
    assert read.attention.keys() == written.attention.keys()
    for site, weights in written.attention.items():
        assert read.attention[site].dtype == np.float32
        np.testing.assert_array_equal(read.attention[site], weights)


def test_what_is_written_is_read_back_exactly_and_in_order(tmp_path, records):
    write(tmp_path / "a", records)
    read = AttentionArchive(tmp_path / "a")
    assert len(read) == 7
    assert read.ids == [record.id for record in records]
    for one, other in zip(read, records, strict=True):
        assert_same(one, other)
    assert_same(read[40], records[2])  # back to a shard that was closed
    assert read.manifest == {
        "model": "abc",
        "format_version": 1,
        "sentences": 7,
        "shards": 3,
        "sites": {"cross": [2, 3], "decoder": [2, 3], "encoder": [2, 3]},
        "complete": True,
    }


@pytest.mark.parametrize(
    ("field", "value", "usual"),
    [("target_unit", "subwords", "spaces"), ("prefix_tokens", 2, 0), ("required", ["le chat", "Éva"], [])],
)
def test_a_field_is_kept_and_written_only_where_it_is_not_as_usual(tmp_path, make_record, field, value, usual):
    write(tmp_path / "a", [make_record(0, **{field: value}), make_record(1)])
    read = AttentionArchive(tmp_path / "a")
    assert [getattr(record, field) for record in read] == [value, usual]
    assert read.lines[0][field] == value and field not in read.lines[1]


@pytest.mark.parametrize(("field", "value"), [("target_unit", "lines"), ("prefix_tokens", 99)])
def test_a_field_that_cannot_be_is_not_written(tmp_path, make_record, field, value):
    with pytest.raises(ValueError, match=f"{field}: expected"):
        write(tmp_path / "a", [make_record(0, **{field: value})])


def test_required_phrases_that_are_no_text_are_not_read(tmp_path, make_record):
    write(tmp_path / "a", [make_record(0, required=["le chat"])])
    line = (tmp_path / "a" / "sentences.jsonl").read_text(encoding="utf-8").split("\n")[0]
    assert parse_line(line) and not parse_line(json.dumps(json.loads(line) | {"required": [1]}))


def test_weights_of_any_sign_are_read_where_the_manifest_says_so(tmp_path, make_record):
    record = make_record(0)
    record.attention["cross"] = record.attention["cross"] - 0.25
    write(tmp_path / "signed", [record], manifest={"signed": ["cross"]})
    assert_same(AttentionArchive(tmp_path / "signed")[0], record)
    for name, manifest in {"none": {}, "other": {"signed": ["encoder"]}}.items():
        write(tmp_path / name, [record], manifest={"model": "abc", **manifest})
        with pytest.raises(InputError, match="cross/000000 has weights that are not shares of a row"):
            AttentionArchive(tmp_path / name)[0]
    record.attention["cross"][0, 0, 0, 0] = np.inf
    write(tmp_path / "infinite", [record], manifest={"signed": ["cross"]})
    with pytest.raises(InputError, match="cross/000000 has weights that are not finite"):
        AttentionArchive(tmp_path / "infinite")[0]


def test_numpy_and_json_alone_read_it_as_the_docstring_says(tmp_path, records, monkeypatch, capsys):
    write(tmp_path / "attention", records)
    snippet = re.search(r"\n    import json, numpy\n.*?\n\n?$", archive.__doc__, re.DOTALL)[0]
    lines = [line[4:] for line in snippet.strip("\n").split("\n")]
    assert len(lines) == 6
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec("\n".join(lines), names)
    np.testing.assert_array_equal(names["weights"], records[4].attention["cross"])
    assert names["sentence"]["target_output_tokens"] == records[4].target_output_tokens
    assert "</s>" in capsys.readouterr().out


def test_arrays_are_stored_uncompressed_under_the_documented_keys(tmp_path, records):
    write(tmp_path, records)
    with np.load(tmp_path / "shard-00000.npz", allow_pickle=False) as shard:
        assert {"cross/000005", "encoder/000003", "decoder/000040"} < set(shard.files)
        assert all(info.compress_type == 0 for info in shard.zip.infolist())
    assert {p.name for p in tmp_path.iterdir()} == {
        "manifest.json",
        "sentences.jsonl",
        *(f"shard-0000{n}.npz" for n in range(3)),
    }


def test_metadata_is_read_without_arrays_and_one_site_without_the_others(tmp_path, records):
    write(tmp_path, records)
    read = AttentionArchive(tmp_path)
    assert list(read.read(42, ["cross"]).attention) == ["cross"]
    assert read[42.0].id == 42
    for shard in tmp_path.glob("*.npz"):
        shard.unlink()
    assert AttentionArchive(tmp_path).lines[4]["source_words"] == records[4].source_words
    with pytest.raises(KeyError):
        read[2]


@pytest.mark.parametrize("sites", ["cross", [], ["encoder"], ["cross", "nope"], ["cross", 5], ["cross", "norms"]])
def test_sites_that_are_not_in_the_archive_are_no_damage(tmp_path, records, sites):
    write(tmp_path, records)
    archive = AttentionArchive(tmp_path)
    expected = "sites: expected a list of cross, decoder, encoder with cross among them, found "
    with pytest.raises(InputError, match=expected):
        archive.read(42, sites)
    if "norms" in sites:  # which the archive might have had
        assert next(archive.records(sites)).attention.keys() == {"cross"}
    else:
        with pytest.raises(InputError, match=r"sites: expected a list of cross, norms, .*, found "):
            archive.records(sites)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {"source_tokens": r.source_tokens[:-1], "source_words": r.source_words[:-1]}, "cross"),
        (lambda r: {"source_words": r.source_words[:-1]}, "source_words"),
        (lambda r: {"target_words": [*r.target_words, None]}, "target_words"),
        (lambda r: {"target_input_tokens": r.target_output_tokens}, "target_input_tokens"),
        (lambda r: {"token_log_probabilities": [0.0]}, "token_log_probabilities"),
        (lambda r: {"token_log_probabilities": [float("nan")] * len(r.target_words)}, "finite"),
        (lambda r: {"mode": "sampled"}, "mode"),
        (lambda r: {"attention": {"cross": r.attention["cross"].swapaxes(2, 3)}}, "cross"),
        (lambda r: {"attention": {"cross": r.attention["cross"][0]}}, "cross"),
        (lambda r: {"attention": r.attention | {"encoder": r.attention["decoder"]}}, "encoder"),
        (lambda r: {"attention": r.attention | {"memory": r.attention["decoder"]}}, "memory"),
        (lambda r: {"attention": {"encoder": r.attention["encoder"]}}, "cross"),
    ],
)
def test_lists_that_do_not_fit_the_axes_are_refused(tmp_path, make_record, change, message):
    record = make_record(9)
    writer = ArchiveWriter(tmp_path, manifest={})
    with pytest.raises(ValueError, match=f"sentence 9: .*{message}"):
        writer.append(dataclasses.replace(record, **change(record)))


def test_a_repeated_id_and_other_heads_than_before_are_refused(tmp_path, make_record):
    writer = ArchiveWriter(tmp_path, manifest={})
    writer.append(make_record(1))
    with pytest.raises(ValueError, match="a sentence with this id was appended before"):
        writer.append(make_record(1))
    with pytest.raises(ValueError, match="sites"):
        writer.append(make_record(2, heads=5))
    with pytest.raises(ValueError, match="format_version"):
        ArchiveWriter(tmp_path / "other", manifest={"format_version": 3})


def test_weights_are_copied_when_appended(tmp_path, make_record):
    record = make_record(1)
    expected = record.attention["cross"].copy()
    with ArchiveWriter(tmp_path, manifest={}) as writer:
        writer.append(record)
        record.attention["cross"][:] = 0
    np.testing.assert_array_equal(AttentionArchive(tmp_path)[1].attention["cross"], expected)


def test_an_archive_without_sentences_is_an_archive(tmp_path):
    write(tmp_path, [])
    assert list(AttentionArchive(tmp_path)) == []


def test_an_exception_leaves_an_unfinished_archive_that_can_be_written_anew(tmp_path, records):
    def interrupted():
        yield from records
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, interrupted())
    lines = (tmp_path / "sentences.jsonl").read_text().split("\n")
    assert len(lines) == 6 + 1  # two whole shards; the seventh sentence was pending
    with pytest.raises(InputError, match="unfinished"):
        AttentionArchive(tmp_path)
    write(tmp_path, records[:2])
    assert AttentionArchive(tmp_path).ids == [5, 3]
    assert len(list(tmp_path.glob("shard-*"))) == 1


def test_a_crash_between_shard_and_lines_leaves_no_line_without_its_shard(tmp_path, records, monkeypatch):
    writer = ArchiveWriter(tmp_path, manifest={}, sentences_per_shard=2)
    for record in records[:3]:
        writer.append(record)
    real = archive.write_atomically

    def write_then_crash(path, data):
        real(path, data)
        raise OSError("power cut")

    monkeypatch.setattr(archive, "write_atomically", write_then_crash)
    with pytest.raises(OSError, match="power cut"):
        writer.append(records[3])
    assert (tmp_path / "shard-00001.npz").exists()
    lines = [json.loads(line) for line in (tmp_path / "sentences.jsonl").read_text().split("\n")[:-1]]
    assert [line["shard"] for line in lines] == ["shard-00000.npz"] * 2
    with pytest.raises(InputError, match="unfinished"):
        AttentionArchive(tmp_path)


@pytest.mark.parametrize("name", ["shard-00000.npz", "shard-00007.npz", archive.GOLD])
def test_files_of_other_people_are_not_replaced_by_an_archive(tmp_path, records, name):
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(InputError, match=f"{name}: the file does not belong to an attention archive"):
        write(tmp_path, records)
    assert (tmp_path / name).read_bytes() == b"mine"


def test_files_with_other_names_stay_beside_an_archive(tmp_path, records):
    (tmp_path / "shard-mine.npz").write_bytes(b"mine")
    write(tmp_path, records)
    assert (tmp_path / "shard-mine.npz").read_bytes() == b"mine" and len(AttentionArchive(tmp_path)) == 7


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("manifest.json", lambda data: data[:20], "manifest.json.*delete"),
        ("manifest.json", lambda data: b"[]", "manifest.json.*delete"),
        ("manifest.json", lambda data: b"{}", "manifest.json.*delete"),
        ("manifest.json", lambda data: data.replace(b'_version": 1', b'_version": 2'), "format_version is 2"),
        ("manifest.json", lambda data: data.replace(b"true", b"false"), "complete"),
        ("sentences.jsonl", lambda data: data[:-9], "sentences.jsonl:7.*delete"),
        ("sentences.jsonl", lambda data: data[data.index(b"\n") + 1 :], "expected 7 sentences.*found 6"),
        ("sentences.jsonl", lambda data: data.replace(b'"mode"', b'"made"', 1), "sentences.jsonl:1"),
        ("sentences.jsonl", lambda data: data + data, "sentences.jsonl:8"),
        ("sentences.jsonl", lambda data: data.replace(b'"shard-00000', b'"../shard-00000', 1), "sentences.jsonl:1"),
        ("sentences.jsonl", lambda data: data.replace(b'"shard-00000.npz"', b"[1]", 1), "sentences.jsonl:1"),
        ("sentences.jsonl", lambda data: data.replace("é".encode(), b"\xff"), "sentences.jsonl"),
        ("shard-00000.npz", lambda data: data[:200], "shard-00000.npz.*delete"),
        ("shard-00000.npz", lambda data: b"", "shard-00000.npz.*delete"),
        ("shard-00000.npz", lambda data: data[:300] + b"\x7f" + data[301:], "shard-00000.npz.*delete"),
        ("shard-00000.npz", lambda data: data.replace(b"cross/000005", b"cross/000006"), "shard-00000.npz.*delete"),
    ],
)
def test_a_damaged_archive_is_refused_with_place_and_remedy(tmp_path, records, name, change, message):
    write(tmp_path, records)
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    with pytest.raises(InputError, match=message):
        list(AttentionArchive(tmp_path))


def test_a_missing_shard_or_archive_is_refused(tmp_path, records):
    with pytest.raises(InputError, match="no attention archive"):
        AttentionArchive(tmp_path / "nowhere")
    write(tmp_path, records)
    (tmp_path / "shard-00001.npz").unlink()
    read = AttentionArchive(tmp_path)
    assert read[5].id == 5
    with pytest.raises(InputError, match=r"shard-00001.npz.*sentence 41"):
        read[41]


def test_a_shard_with_exchanged_arrays_is_refused(tmp_path, records):
    """Lengths differ between sentences, so that weights under another sentence's id do not fit."""
    write(tmp_path, records)
    with np.load(tmp_path / "shard-00000.npz") as shard:
        arrays = dict(shard)
    arrays["cross/000003"], arrays["cross/000005"] = arrays["cross/000005"], arrays["cross/000003"]
    np.savez(tmp_path / "shard-00000.npz", **arrays)
    with pytest.raises(InputError, match="sentence 5"):
        AttentionArchive(tmp_path)[5]


def with_sink(record):
    """A record whose rows leave a quarter to the sink."""
    weights = record.attention["cross"] * np.float32(0.75)
    shares = (1 - weights.sum(-1, dtype=np.float64)).astype(np.float32)
    return dataclasses.replace(record, attention={**record.attention, "cross": weights}, sinks={"cross": shares})


def test_shares_of_the_sink_are_stored_beside_the_weights(tmp_path, records):
    written = [with_sink(record) for record in records]
    write(tmp_path / "a", written)
    read = AttentionArchive(tmp_path / "a")
    assert read.manifest["sinks"] == ["cross"]
    for one, other in zip(read, written, strict=True):
        np.testing.assert_array_equal(one.sinks["cross"], other.sinks["cross"])
        np.testing.assert_allclose(one.attention["cross"].sum(-1) + one.sinks["cross"], 1, atol=1e-6)
    assert read.read(3, ["cross"]).sinks.keys() == {"cross"}
    with np.load(tmp_path / "a/shard-00000.npz") as shard:
        assert "cross-sink/000005" in shard.files


def test_an_archive_with_sinks_that_is_continued_keeps_them(tmp_path, records):
    written = [with_sink(record) for record in records]
    with ArchiveWriter(tmp_path / "a", manifest={}, sentences_per_shard=3) as writer:
        for record in written[:3]:
            writer.append(record)
    with ArchiveWriter(tmp_path / "a", manifest={}, sentences_per_shard=3, go_on=True) as writer:
        assert len(writer.ids) == 3
    read = AttentionArchive(tmp_path / "a")
    assert (read.manifest["sinks"], len(read[3].sinks)) == (["cross"], 1)


@pytest.mark.parametrize(("shares", "found"), [(-0.1, "not shares"), (0.9, "not shares"), (np.nan, "not finite")])
def test_shares_that_no_sink_can_have_are_refused(tmp_path, records, shares, found):
    record = with_sink(records[0])
    record.sinks["cross"][0, 0, 0] = shares
    write(tmp_path / "a", [record])
    with pytest.raises(InputError, match=f"damaged attention archive.*{found}"):
        AttentionArchive(tmp_path / "a")[5]


@pytest.mark.parametrize("copied", [lambda archive: pickle.loads(pickle.dumps(archive)), copy.deepcopy, copy.copy])
def test_an_archive_that_was_read_is_copied_by_its_path(tmp_path, records, copied):
    write(tmp_path / "a", records)
    read = AttentionArchive(tmp_path / "a")
    assert_same(read[3], copied(read)[3])
    assert len(pickle.dumps(read)) < 1000


@pytest.mark.parametrize("path", [5, None, ["a"], "a\0b"])
def test_an_archive_is_opened_by_a_path(path):
    with pytest.raises(InputError, match=r"^path: expected the folder of an archive or of an evaluation, found "):
        AttentionArchive(path)
