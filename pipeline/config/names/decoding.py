"""How translations are searched."""

SEARCHES = {
    "beam": "the best of several hypotheses (greedy search with beam_size 1)",
    "sampling": "tokens drawn at random",
}
