"""Phrases that translations must or must not contain. They are found in text, in any segmentation into tokens.

The modules, in reading order:

- `token_text`: the text that each token adds to a translation, as symbols
- `automaton`: an automaton that finds phrases in a text
- `banned`: banned phrases, and the table of allowed tokens
- `required`: required phrases and their tokens
- `sentence_files`: the reader of the files with prefixes, required phrases and banned phrases
"""
