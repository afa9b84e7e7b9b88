"""Searches for translations, and the teacher-forced pass over given ones. The modules, in reading order:

- `search`: the inputs and results that all searches share, and their parts
- `constraints`: constraints on the next token, such as a minimum length
- `lexical_constraints`: banned and required phrases
- `greedy`, `sampling`, `beam`: the three searches
- `forced`: the teacher-forced pass
- `translator`: translates sentences, from text to text
- `build`: makes a search and a translator from the settings
"""
