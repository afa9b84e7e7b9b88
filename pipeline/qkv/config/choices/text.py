"""Names for text: tokenizers, problems and filters of corpora, scripts, units that count as words."""

TOKENIZERS = {
    "bpe": "merges of frequent pairs",
    "unigram": "a unigram language model",
    "given": "the tokenizer of an imported run, which is not trained",
}
CORPUS_PROBLEMS = {
    "empty_side": "one side is empty",
    "over_long": "a side has more than its maximum of tokens",
    "length_ratio": "one side is much longer than the other",
    "duplicate": "the pair has been seen before",
}
CORPUS_FILTERS = {
    "script": "a side has too few letters of its script",
    "identical": "both sides are the same text",
    "digits": "the sides have different digits",
    "near_duplicate": "an earlier pair is the same but for capitals, digits, marks and spaces",
}
"""The reasons why filters leave out a pair. A pair is counted under the first reason that applies."""
SCRIPTS = (
    "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil",
    "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Georgian", "Armenian",
    "Ethiopic", "Mongolian", "Hangul", "Han", "Japanese",
)  # fmt: skip
"""Unicode's names of scripts. `Japanese` stands for the three scripts that Japanese is written in."""
WORD_UNITS = {
    "spaces": "words are separated by spaces",
    "subwords": "every subword is a word",
    "characters": "every character but spaces is a word",
}
WORD_MARKS = {
    "sentencepiece": "\u2581 begins a word (T5, Marian, NLLB, Llama)",
    "byte_level": "\u0120 begins a word, and so does the first token (GPT-2, BART, RoBERTa)",
    "wordpiece": "## continues a word (BERT)",
    "end_of_word": "</w> ends a word (XLM, FSMT, CLIP)",
    "joiner": "@@ at its end joins a token to the next (subword-nmt, fairseq, Nematus)",
    "none": "every token is a word",
}
"""The marking schemes by which the tokens of an archive show where words begin or end."""
DATA_SETS = ("train", "validation", "test")
