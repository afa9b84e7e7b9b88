"""Text on its way from files to padded batches: lines, sentence pairs, tokens and batches.

The modules, in reading order:

- `prepare`: the preparation of a run's text, from its files to the corpus report
- `shards`: the reader of the training text, which encodes and measures it in one pass
- `selection`: the choice of the pairs to train on, and its part of the corpus report
- `training_text`: the prepared text, as training loads it from the run
- `text_reader`: the reader of text that users write, from lines to ids
- `batch_plan`: the sentences of each batch of an epoch
- `packing`: the same for batches whose rows have several pairs each
- `batch`: batches as padded arrays

Subpackages:

- `lines`: lines of text from files, streams and users
- `corpora`: corpora of sentence pairs
- `tokens`: subwords, words and encoded text
- `phrases`: phrases that translations must or must not contain
"""
