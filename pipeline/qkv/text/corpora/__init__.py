"""Corpora of sentence pairs: their files, filters, held-out sets, mixtures and word links.

The modules, in reading order:

- `corpus`: a corpus of sentence pairs, in memory or on disk, and its shards
- `formats`: the reader of corpora from pairs of text files and from tables
- `filters`: filters for pairs that are not translations of each other, and for duplicates
- `held_out`: validation and test sets that are held out from the training files
- `overlap`: sentences of a set that the training text contains, too
- `mixture`: the mixture of several corpora in an epoch
- `pairs_in_memory`: sentence pairs that the user passes from Python, and their files
- `provenance`: digests of the files that a text was read from, and checks that they are unchanged
- `word_links`: word alignments in Pharaoh format
"""
