"""Solutions of 4_how_far_to_believe.ipynb: what fills each gap, by its name."""

# %% gap-mean
mean_is = "flatter"


def entropy(weights):
    return -(weights * np.log(np.maximum(weights, 1e-30))).sum(axis=-1)

# %% gap-error
def error_rate(links, sure, possible):
    return 1 - (len(links & sure) + len(links & possible)) / (len(links) + len(sure))

# %% gap-bootstrap
def bootstrap(numbers, random):
    drawn = random.integers(len(numbers), size=(1000, len(numbers)))
    return tuple(np.quantile(numbers[drawn].mean(axis=1), [0.025, 0.975]))

# %% gap-norms
def same_place(weights, norms):
    return (weights.argmax(axis=1) == norms.argmax(axis=1)).mean()

# %% gap-shuffle
costs = table.query("change == 'permuted'").set_index("head")["loss_change"]
matter_less = [int(head) for head in costs.index[costs < costs.max() / 2]]
