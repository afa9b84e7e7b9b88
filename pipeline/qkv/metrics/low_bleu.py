"""What a BLEU near zero means, where a model predicts many tokens right."""

from collections.abc import Sequence

from .bleu import make_bleu

LOW_BLEU = 0.5
GOOD_ACCURACY = 0.4  # predicting the most frequent tokens reaches half of it
FEW_WORDS = 3  # BLEU counts up to four in a row


def count_words(references: Sequence[str], tokenizer: str) -> float:
    """Returns the mean number of words of a reference, as BLEU's tokenizer splits it; see `make_bleu`."""
    return make_bleu(tokenizer).corpus_score(references, [references]).ref_len / max(1, len(references))


def explain_low_bleu(bleu: float, token_accuracy: float, words: float, tokenizer: str) -> str | None:
    """Says in a line why BLEU is near zero though many tokens are predicted right; None if it is not so.

    Args:
        bleu: of a set.
        token_accuracy: of the same set, from 0 to 1.
        words: mean number of words of its references, see `count_words`.
        tokenizer: that of BLEU.
    """
    if bleu >= LOW_BLEU or token_accuracy < GOOD_ACCURACY or not words:
        return None
    finding = f"BLEU is {bleu:.2f}, though {100 * token_accuracy:.0f} % of tokens are right, given those before them: "
    if words < FEW_WORDS:
        return (
            f"{finding}its tokenizer {tokenizer} finds {words:.1f} words in a reference, and it counts four in a row; "
            "for text without spaces set data.bleu_tokenizer to char, or give evaluate.py --bleu_tokenizer char"
        )
    return (
        f"{finding}the model has learnt words, but its own translations hardly ever have four in a row as the "
        "references do. Train longer; if the translations read well, look at data.bleu_tokenizer and at chrF"
    )
