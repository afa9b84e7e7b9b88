"""The racers of `tests/benchmarks/race.py`, a module each, run by `run.py` in the environment of its toolkit.

A racer is a module with

- `PACKAGES`: the packages whose versions the table shows, the toolkit's own first;
- `BEAM`: hypotheses that its search keeps for the scores of the table, 1 for greedy search;
- `train(clock, text)`: trains on `text/train.en` and `text/train.de` until `clock` is over, lets it save checkpoints on
  the way, and returns the number of parameters;
- `translate(checkpoint, sentences, beam)`: the translations of sentences by the checkpoint that was saved at this path.

Nothing here needs more than Python and what the toolkit itself brings.
"""
