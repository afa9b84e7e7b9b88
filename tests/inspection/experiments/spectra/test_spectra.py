"""Singular values of a head's query-key matrix, without ever making that matrix."""

import math

import numpy as np
import pytest

from qkv.inspection.experiments.spectra import effective_rank, query_key_spectrum, spectra_table


def test_singular_values_are_those_of_the_whole_matrix():
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(12, 4)), generator.normal(size=(9, 4))
    whole = np.linalg.svd(query @ key.T, compute_uv=False)
    np.testing.assert_allclose(query_key_spectrum(query, key), whole[:4], rtol=1e-9)
    np.testing.assert_allclose(whole[4:], 0, atol=1e-9)


@pytest.mark.parametrize(
    ("values", "expected"), [([3, 0, 0], 1), ([2, 2, 2, 2], 4), ([0.5, 0.5, 0], 2), ([3, 1], math.e**0.5623351)]
)
def test_the_effective_rank_counts_directions(values, expected):
    assert effective_rank(np.array(values, float)) == pytest.approx(expected, rel=1e-6)
    assert effective_rank(7 * np.array(values, float)) == pytest.approx(expected, rel=1e-6)
    assert math.isnan(effective_rank(np.zeros(3)))


def test_the_table_cuts_kernels_into_heads():
    generator = np.random.default_rng(1)
    kernels = [(generator.normal(size=(8, 6)), generator.normal(size=(5, 6))) for _ in range(2)]
    kernels[1][0][:, 3:] = 0
    table = spectra_table(kernels, heads=2)
    assert table[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    values = query_key_spectrum(kernels[0][0][:, 3:], kernels[0][1][:, 3:])
    row = table.iloc[1]
    assert row["largest"] == pytest.approx(values[0]) and row["largest_share"] == pytest.approx(values[0] / sum(values))
    assert row["size"] == 3 and 1 <= row["effective_rank"] <= 3
    assert math.isnan(table["effective_rank"][3])
