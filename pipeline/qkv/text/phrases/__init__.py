"""Phrases that translations must or must not contain, found in text however they are divided into tokens.

- `token_text`: the text that each token adds
- `automaton`: an automaton that finds phrases in a text
- `banned`: banned phrases, and the table of allowed tokens
- `required`: required phrases and their tokens
- `sentence_files`: the files of constraints that users give
"""
