"""PAD, UNK, BOS, EOS and the mark of words."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
WORD_START = "\u2581"  # SentencePiece's mark for the space before a word
