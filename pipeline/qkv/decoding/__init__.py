"""Decoding: searches for translations, and the teacher-forced pass, which scores existing translations.

The modules, in reading order:

- `search`: the interface and the result of all searches, and the tensor operations that they share
- `constraints`: constraints on the next token, such as a minimum length
- `lexical_constraints`: banned and required phrases
- `greedy`: greedy search
- `sampling`: random sampling
- `beam`: beam search
- `forced`: the teacher-forced pass
- `translator`: the translator, from source text to target text
- `generate`: the searches of `model.generate`, without a run
- `build`: the search and the translator that the settings describe
"""
