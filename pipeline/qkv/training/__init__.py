"""Training, update by update. In reading order:

- `progress`: how far a run has come
- `seeds`: the random generators of a model
- `loss`: the whole loss
- `slices`, `step`, `accumulation`: one update, its slices, and updates of several batches
- `optimizers`, `schedule`: gradients into updates
- `checkpoints`: written, kept, chosen
- `workers`: what several workers agree on
- `stopping`, `validation`, `time_budget`: when training ends, and what is measured on the way
- `batches`, `batch_size`: what each update reads, and how much fits
- `loop`: the story of a training
- `callbacks`: what is printed, drawn and written on the way
- `build`: all of it from settings
"""
