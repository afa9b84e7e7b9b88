"""The evaluation of a run on a set, and the comparison of evaluations.

The modules, in reading order:

- `confidence`: the probability that a translation is good
- `request`: the request of an evaluation: a run and a set, with its tokens
- `evaluate_set`: the evaluation itself, from translations to files
- `resumable`: evaluations that appear complete or not at all, and continue after an interruption
- `tables`: the tables of an evaluation, written and read
- `page`: the run of an evaluation on the viewer's page, and the page's header
- `experiments`: experiments on the heads of a run, and their files
- `tuning`: the choice of beam size and length penalty on the validation set
- `archive_scores`: the evaluation of an attention archive that was not made from a run
- `printed_table`: the table of metrics on the terminal
- `systems`: evaluations and archives, read from disk to be compared or shown
- `comparison`: scores and error rates of several systems, with intervals and tests
- `measure_comparison`: measures of heads of several systems, with intervals and tests
"""
