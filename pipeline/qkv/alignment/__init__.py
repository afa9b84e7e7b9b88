"""From attention to links between words. In reading order:

- `word_matrix`: attention between words
- `links`: links read off it, and links of two directions combined
- `error_rate`: links compared with gold links
- `readout`, `link_probabilities`: the place where links are read, and how probable they are
- `gold`: sentence pairs with gold links
- `head_scores`, `readout_selection`: the error rates of every head, and the readout of a run
- `aligned_text`, `linking`, `aligner`: a text aligned, by one run or several
"""
