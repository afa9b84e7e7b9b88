"""Word alignment: links between the words of a sentence and of its translation, by statistics or read off a model's
attention, and their scores against gold alignments.

The modules, in reading order:

- `statistical`: links by statistics of a text alone, IBM model 1 and an HMM
- `word_statistics`: these statistics of a run's training text, applied to any sentence pair
- `word_matrix`: attention between words, computed from attention between tokens
- `links`: the extraction methods, which turn attention into links, and the symmetrisation of two directions
- `error_rate`: the alignment error rate, and the links of two baselines
- `link_probabilities`: calibrated probabilities of links
- `readout`: a readout, that is site, layer, head, label side and extraction method
- `gold`: sentence pairs with gold alignments
- `head_scores`: the error rate of every layer and head, and the scores of a readout
- `readout_selection`: the selection of a run's readout
- `aligned_text`: a parallel text and its words
- `linking`: the links of each pair, by the attention of one run or of several
- `aligner`: a parallel text aligned by runs on disk
"""
