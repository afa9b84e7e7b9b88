"""Training: the update of the weights by one batch, and the loop that repeats it until a rule ends training.

The modules, in reading order:

- `loss`: the loss of a batch
- `seeds`: the random number generators of a model
- `slices`: the slices of a batch, which a device computes in parallel
- `loss_scale`: the scale of the loss in float16
- `step`: one update of gradient descent
- `progress`: the progress of a run
- `accumulation`: updates of several batches, or of the parts of a batch
- `optimizers`: Adam and Muon
- `schedule`: schedules of the learning rate
- `checkpoints`: the checkpoints of a run, and the choice of the best weights
- `worker_checks`: checks that several workers train the same, and their votes
- `stopping`: the rules that end training
- `time_budget`: the number of updates that fit into the minutes of a training
- `batches`: the batches of every epoch
- `batch_size`: the largest batches that fit into memory
- `loop`: the training loop
- `build`: all of these, built from a config

Subpackages:

- `callbacks`: callbacks that print, draw and write the progress
"""
