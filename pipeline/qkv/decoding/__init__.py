"""Search for translations, and the teacher-forced pass over given ones. In reading order:

- `search`: what every search takes and returns, and what searches are made of
- `constraints`: bans on next tokens, and what a beam search asks besides
- `phrases`: phrases that must or must not occur
- `greedy`, `sampling`, `beam`: the three searches
- `forced`: the teacher-forced pass
- `translator`: sentences in, translations out
- `build`: a search and a translator from settings
"""
