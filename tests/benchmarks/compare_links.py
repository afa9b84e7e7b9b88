"""Compares the error rates of two files of links, in Pharaoh format, on the same sentences.

    python -m tests.benchmarks.compare_links gold.align first.pharaoh second.pharaoh

Prints both rates, the 95 % interval of the second minus the first (a paired bootstrap over sentences) and the p of
approximate randomisation (`qkv.statistics.significance`).
"""

import argparse
from pathlib import Path

import numpy as np

from qkv.alignment.error_rate import count_links, error_terms
from qkv.statistics.resampling import ratio
from qkv.statistics.significance import difference_interval, randomisation_p
from qkv.text.corpora.word_links import read_pharaoh


def terms_of(links: Path, gold: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns what each sentence adds above and below in the error rate, both `(N, 1)`."""
    pairs = zip(read_pharaoh(links), read_pharaoh(gold), strict=True)
    counts = np.array([count_links(found.sure, right) for found, right in pairs])
    above, below = error_terms(counts)
    return above[:, None], below[:, None]


def main() -> None:
    """Reads the files and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("gold", "first", "second"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    terms = [terms_of(path, options.gold) for path in (options.first, options.second)]
    first, second = (100 * float(ratio(*one)[0]) for one in terms)
    low, high = (100 * float(end[0]) for end in difference_interval(*terms))
    p = float(randomisation_p(*terms)[0])
    print(f"{options.first}: {first:.1f} %; {options.second}: {second:.1f} %")
    print(f"difference {second - first:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}, p = {p:.3f}")


if __name__ == "__main__":
    main()
