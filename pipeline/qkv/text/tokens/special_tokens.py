"""The ids of the special tokens, and SentencePiece's mark of a word's beginning."""

PAD = 0
UNK = 1
BOS = 2
EOS = 3
WORD_START = "\u2581"  # SentencePiece's mark for the space before a word
