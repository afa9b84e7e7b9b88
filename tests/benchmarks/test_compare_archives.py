"""Differences of archives are found wherever they are."""

from dataclasses import replace

import numpy as np
import pytest

from qkv.inspection.archive import ArchiveWriter
from tests.benchmarks.compare_archives import largest_differences
from tests.support.records import build_record


@pytest.fixture
def write(tmp_path):
    """Writes an archive of records, and returns its folder."""

    def write(name, records):
        with ArchiveWriter(tmp_path / name, manifest={}) as writer:
            for record in records:
                writer.append(record)
        return tmp_path / name

    return write


def test_the_largest_difference_of_each_site_is_found(write):
    records = [build_record(0), build_record(1)]
    moved = {site: weights.copy() for site, weights in records[1].attention.items()}
    moved["encoder"][1, 2, 3, 4] += np.float32(2e-3)
    likely = [value - 0.25 * (token == 2) for token, value in enumerate(records[1].token_log_probabilities)]
    other = [records[0], replace(records[1], attention=moved, token_log_probabilities=likely)]
    differences = largest_differences(write("first", records), write("second", other))
    assert differences == {
        "cross": 0.0,
        "decoder": 0.0,
        "encoder": pytest.approx(2e-3, rel=1e-3),
        "log-probabilities": pytest.approx(0.25),
    }


def test_other_sentences_are_not_compared(write):
    first = write("first", [build_record(0), build_record(1)])
    with pytest.raises(ValueError, match="the same sentences"):
        largest_differences(first, write("fewer", [build_record(0)]))
    other = build_record(1)
    renamed = replace(
        other,
        target_input_tokens=["<s>", "other", *other.target_input_tokens[2:]],
        target_output_tokens=["other", *other.target_output_tokens[1:]],
    )
    with pytest.raises(ValueError, match="sentence 1: expected the same target input tokens"):
        largest_differences(first, write("renamed", [build_record(0), renamed]))
