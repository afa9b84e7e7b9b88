"""Training, update by update. In reading order:

- `loss`: the whole loss
- `seeds`, `slices`, `step`: one update of one batch; the random generators of a model, and the slices of a batch
- `progress`, `accumulation`: the progress of a run; updates of several batches, or of parts of one
- `optimizers`, `schedule`: gradients into updates
- `checkpoints`: written, kept, chosen
- `workers`: what several workers compare and agree on
- `stopping`, `time_budget`: when training ends, and when it is validated
- `batches`, `batch_size`: what each update reads, and how much fits
- `loop`: the story of a training
- `callbacks`: what is printed, drawn and written on the way
- `build`: all of it from settings
"""
