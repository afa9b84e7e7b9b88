"""How translations are searched."""

SEARCHES = {
    "beam": "the best of several hypotheses (greedy search with beam_size 1)",
    "sampling": "tokens drawn at random",
}
LENGTH_DIVISORS = {
    "gnmt": "((5 + n) / 6) ^ length_penalty for n tokens",
    "power": "n ^ length_penalty, as in Marian and Hugging Face",
}
BEAM_ENDS = {
    "full": "beam_size hypotheses have ended",
    "worst": "moreover the best open one, as long as it is, ranks no higher than any of them, as in Hugging Face",
}
