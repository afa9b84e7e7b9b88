"""Groups sentence pairs that share a sentence, directly or through other pairs."""

import numpy as np
import numpy.typing as npt


def find_components(*sides: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Finds the connected components of pairs: two pairs are connected if they have the same sentence on one side.

    Args:
        sides: for each side int `(pairs,)`, a number from 0 for each sentence; equal sentences have equal numbers.

    Returns:
        int `(pairs,)`, for each pair the index of the first pair of its component.
    """
    # Every pair follows a leader. In each round it takes the smallest leader among the pairs with one of its sentences,
    # and takes its former leader along (Zhang, Azad and Hu 2020), so that long chains need few rounds.
    leaders = np.arange(len(sides[0]), dtype=np.int64)
    while True:
        smallest = leaders
        for numbers in sides:
            of_sentence = np.full(int(numbers.max(initial=-1)) + 1, len(leaders), np.int64)
            np.minimum.at(of_sentence, numbers, smallest)
            smallest = of_sentence[numbers]
        if np.array_equal(smallest, leaders):
            return leaders
        followed = smallest.copy()
        np.minimum.at(followed, leaders, smallest)
        leaders = followed[followed]
