"""Evaluates a run on a set, then compares evaluations. In reading order:

- `request`: what is evaluated
- `evaluate_set`: translate, score, record, write
- `evaluation_folder`: a folder that is complete or absent, and continued after a kill
- `tables`, `page`, `experiments`: the files that are written
- `archive_scores`: the same for an archive that no run of ours has written
- `printed_table`: the short table on the terminal
- `systems`: evaluations and archives, read back
- `comparison`, `measure_comparison`: systems side by side
"""
