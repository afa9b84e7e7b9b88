"""Compares two attention archives of the same sentences, such as those of the same weights by a GPU and a processor.

    python -m tests.benchmarks.compare_archives FIRST SECOND [--tolerance 1e-5]

FIRST and SECOND are folders of archives or of evaluations. It prints the largest difference at each site and of the
tokens' log-probabilities, and ends in status 1 if one is above the tolerance. Write both archives of the references
(`python evaluate.py RUN --forced --name NAME`): translations of near-ties may differ, and then have other rows. The
search, which translates all the same, is kept short by `--beam_size 1`.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from qkv.inspection.archive import AttentionArchive

LOG_PROBABILITIES = "log-probabilities"


def largest_differences(first: str | Path, second: str | Path) -> dict[str, float]:
    """Returns the largest absolute difference between two archives at each site, the learnt sinks included.

    The key `log-probabilities` has the largest difference of the log-probability of a token, in nats.

    Raises:
        ValueError: the archives have other sentences, other tokens or other sites.
    """
    archives = AttentionArchive(first), AttentionArchive(second)
    sites = [archive.manifest["sites"] for archive in archives]
    if sites[0] != sites[1]:
        raise ValueError(f"expected the same sites with the same layers and heads, found {sites[0]} and {sites[1]}")
    if archives[0].ids != archives[1].ids:
        raise ValueError(f"expected the same sentences, found {len(archives[0])} and {len(archives[1])}, or other ids")
    differences = dict.fromkeys([*sites[0], LOG_PROBABILITIES], 0.0)
    for ours, theirs in zip(*archives, strict=True):
        for side in ("source_tokens", "target_input_tokens", "target_output_tokens"):
            if getattr(ours, side) != getattr(theirs, side):
                raise ValueError(f"sentence {ours.id}: expected the same {side.replace('_', ' ')} in both archives")
        pairs = [(LOG_PROBABILITIES, ours.token_log_probabilities, theirs.token_log_probabilities)]
        for kind in ("attention", "sinks"):
            arrays, others = getattr(ours, kind), getattr(theirs, kind)
            if arrays.keys() != others.keys():
                raise ValueError(f"sentence {ours.id}: expected the same {kind} in both archives")
            pairs += [(site, array, others[site]) for site, array in arrays.items()]
        for name, array, other in pairs:
            if len(array) != len(other):
                raise ValueError(f"sentence {ours.id}: expected {name} in both archives")
            difference = np.abs(np.asarray(array, np.float64) - np.asarray(other, np.float64))
            differences[name] = max(differences[name], float(difference.max(initial=0.0)))
    return differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args()
    differences = largest_differences(options.first, options.second)
    for name, difference in differences.items():
        print(f"{name:20} {difference:.2e}")
    return int(max(differences.values()) > options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
