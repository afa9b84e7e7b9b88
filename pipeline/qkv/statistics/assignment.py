"""The best way to pair the members of two groups of equal size."""

import numpy as np


def best_assignment(gain: np.ndarray) -> np.ndarray:
    """Pairs rows with columns so that the sum of gains is the largest (the Hungarian method, Kuhn 1955, in the form
    with shortest paths of Jonker and Volgenant 1987), in time n^3.

    Args:
        gain: `(n, n)`, what is gained by pairing a row with a column.

    Returns:
        int `(n,)`, the column of each row.
    """
    cost = -np.asarray(gain, np.float64)
    size = len(cost)
    # One more row and column, of index `size`, where the search for a place for each row starts.
    row_price, column_price = np.zeros(size + 1), np.zeros(size + 1)
    row_of = np.full(size + 1, -1)
    for row in range(size):
        row_of[size], column = row, size
        distance, before = np.full(size, np.inf), np.full(size, size)
        reached = np.zeros(size + 1, bool)
        while row_of[column] >= 0:
            reached[column] = True
            here = row_of[column]
            found = cost[here] - row_price[here] - column_price[:size]
            nearer = ~reached[:size] & (found < distance)
            distance[nearer], before[nearer] = found[nearer], column
            nearest = int(np.argmin(np.where(reached[:size], np.inf, distance)))
            step = distance[nearest]
            row_price[row_of[reached]] += step
            column_price[reached] -= step
            distance[~reached[:size]] -= step
            column = nearest
        while column != size:
            row_of[column], column = row_of[before[column]], before[column]
        row_of[size] = -1
    columns = np.empty(size, int)
    columns[row_of[:size]] = np.arange(size)
    return columns
