"""Files, as everything that is written and read needs them; in reading order:

- `written`: the rules for other people's files, and lists of the files that this program wrote
- `atomic`: files and folders that appear whole or not at all
- `lock`: locks on folders, released when a process ends
- `json`, `arrays`: JSON and NumPy files, those from others checked before memory is taken
- `paths`: paths that a person gives: patterns, names, readable, writable, digests
- `run_directory`: every path of a run and of an evaluation
"""
