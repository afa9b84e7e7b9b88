"""What other tools read: Nematus' text for SoftAlignments, frames and tables for notebooks."""

import base64
import json

import numpy as np
import pytest
from safetensors.numpy import load

from qkv.alignment.readout import AlignmentReadout
from qkv.inspection import ArchiveWriter, AttentionArchive
from qkv.inspection.archive_export import bertviz_arguments, write_inseq, write_soft_alignments


def read_soft_alignments(text):
    """As SoftAlignments does: a header, rows until an empty line; `<EOS>` added to both sides."""
    for block in text.split("\n\n")[:-1]:
        header, *rows = block.split("\n")
        number, target, _, source, sizes = header.split(" ||| ")
        weights = np.array([[float(weight) for weight in row.split()] for row in rows])
        yield int(number), [*source.split(), "<EOS>"], [*target.split(), "<EOS>"], weights, sizes


@pytest.mark.parametrize("head", [2, "mean"])
def test_soft_alignments_hold_tokens_and_weights(make_record, tmp_path, head):
    records = [make_record(0), make_record(1, (0, 1, 1, 2, 3, None), (0, 1, None))]
    write_soft_alignments(tmp_path / "nematus.txt", records, AlignmentReadout(1, head, "output"))
    found = list(read_soft_alignments((tmp_path / "nematus.txt").read_text(encoding="utf-8")))
    for record, (number, source, target, weights, sizes) in zip(records, found, strict=True):
        heads = record.attention["cross"][1]
        assert number == record.id and sizes == f"{len(source)} {len(target)}"
        assert [source[:-1], target[:-1]] == [record.source_tokens[:-1], record.target_output_tokens[:-1]]
        np.testing.assert_allclose(weights, heads.mean(0) if head == "mean" else heads[head], atol=1e-6)


def test_separators_in_tokens_are_replaced(make_record, tmp_path):
    record = make_record(
        0, (0, 1, 2, 3, 4, 5, None), source_tokens=["|||", "a b", "\n", "\u00a0c", "", "\r\u2028", "</s>"]
    )
    write_soft_alignments(tmp_path / "nematus.txt", [record], AlignmentReadout(0, 0, "output"))
    ((_, source, *_),) = read_soft_alignments((tmp_path / "nematus.txt").read_text(encoding="utf-8"))
    assert len(source) == 7 and not any("|" in token for token in source)


def test_a_frame_is_labelled_with_the_tokens(make_record):
    record = make_record(0)
    frame = record.to_frame("cross", layer=1, head=2)
    assert list(frame.index) == record.target_output_tokens and list(frame.columns) == record.source_tokens
    np.testing.assert_array_equal(frame.to_numpy(), record.attention["cross"][1, 2])
    np.testing.assert_allclose(record.to_frame().to_numpy(), record.attention["cross"][0].mean(axis=0))
    frame = record.to_frame("decoder")
    assert list(frame.index) == record.target_output_tokens and list(frame.columns) == record.target_input_tokens


@pytest.fixture
def archive(make_record, tmp_path):
    with ArchiveWriter(tmp_path / "attention", manifest={}) as writer:
        for id_ in (4, 0, 7):
            writer.append(make_record(id_, source=f"<b>{id_}</b>"))
    return AttentionArchive(tmp_path / "attention")


def test_an_archive_is_sliced_in_its_own_order(archive):
    assert [record.id for record in archive[1:]] == [0, 7]
    assert [record.id for record in archive[::-1]] == [7, 0, 4]
    assert archive[9:] == []


def test_an_archive_as_a_frame_has_a_row_for_each_sentence(archive):
    frame = archive.to_frame()
    assert list(frame.index) == [4, 0, 7]
    for record in archive:
        row = frame.loc[record.id]
        assert (row["source"], row["target_tokens"]) == (record.source, len(record.target_output_tokens))
        assert row["log_probability"] == pytest.approx(sum(record.token_log_probabilities))


def test_notebooks_show_markup_in_text_as_text(archive, make_record):
    shown = archive._repr_html_()
    assert "3 sentences" in shown and "cross 2 x 3" in shown
    assert "&lt;b&gt;4&lt;/b&gt;" in shown and "<b>" not in shown
    record = make_record(0, source_tokens=["<script>", "b", "c", "d", "</s>"])._repr_html_()
    assert "&lt;script&gt;" in record and "<script>" not in record and record.count("<td") == 4 * 5
    assert "without" in make_record(0, attention={"cross": np.zeros((0, 0, 4, 5), np.float32)})._repr_html_()


def read_inseq(value):
    """As inseq does: instances of its classes, tensors as safetensors in base64."""
    if isinstance(value, list):
        return [read_inseq(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "__instance_type__" not in value:
        return {key: read_inseq(one) for key, one in value.items()}
    module, name = value["__instance_type__"]
    return {"class": f"{module}.{name}", **{key: read_inseq(one) for key, one in value["attributes"].items()}}


def read_safetensors(text):
    return load(base64.b64decode(text))["attribution"]


def test_inseq_gets_every_layer_and_head(make_record, tmp_path):
    records = [make_record(0), make_record(1, (0, 1, 1, 2, 3, None), (0, 1, None), token_log_probabilities=[])]
    write_inseq(tmp_path / "inseq.json", records)
    output = read_inseq(json.loads((tmp_path / "inseq.json").read_text(encoding="utf-8")))
    assert output["class"] == "inseq.data.attribution.FeatureAttributionOutput"
    assert output["info"]["input_texts"] == ["source 0", "source 1"]
    for record, sequence in zip(records, output["sequence_attributions"], strict=True):
        assert sequence["class"].endswith(".MultiDimensionalFeatureAttributionSequenceOutput")
        assert [token["token"] for token in sequence["source"]] == record.source_tokens
        assert [token["token"] for token in sequence["target"]] == ["<s>", *record.target_output_tokens]
        assert (sequence["attr_pos_start"], sequence["attr_pos_end"]) == (1, 1 + len(record.target_output_tokens))
        scores, cross = read_safetensors(sequence["source_attributions"]), record.attention["cross"]
        assert scores.shape == (len(record.source_tokens), len(record.target_output_tokens), 2, 3)
        for layer, head in np.ndindex(2, 3):
            np.testing.assert_array_equal(scores[:, :, layer, head], cross[layer, head].T)
        encoder = read_safetensors(sequence["sequence_scores"]["encoder_self_attentions"])
        np.testing.assert_array_equal(encoder[:, :, 1, 2], record.attention["encoder"][1, 2].T)
    first, second = output["sequence_attributions"]
    probabilities = read_safetensors(first["step_scores"]["probability"])
    np.testing.assert_allclose(probabilities, np.exp(records[0].token_log_probabilities), rtol=1e-6)
    assert second["step_scores"] == {}


def test_bertviz_gets_the_sites_that_it_knows(make_record):
    record = make_record(0)
    record.attention["norms"] = record.attention["cross"]
    arguments = bertviz_arguments(record, np.array)
    assert arguments.keys() == {
        *("cross_attention", "encoder_attention", "decoder_attention"),
        *("encoder_tokens", "decoder_tokens"),
    }
    T, S = len(arguments["decoder_tokens"]), len(arguments["encoder_tokens"])
    assert [layer.shape for layer in arguments["cross_attention"]] == [(1, 3, T, S)] * 2
    np.testing.assert_array_equal(arguments["cross_attention"][1][0], record.attention["cross"][1])


def test_sentences_of_unknown_probability_are_measured_and_summed_as_such(make_record, tmp_path):
    with ArchiveWriter(tmp_path / "attention", manifest={}) as writer:
        writer.append(make_record(0, token_log_probabilities=[]))
    assert np.isnan(AttentionArchive(tmp_path / "attention").to_frame()["log_probability"][0])
