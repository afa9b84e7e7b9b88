"""qkv trains a small neural translator and shows where its attention went.

The packages, in the order in which they may import each other:

- `errors`: errors that a person can mend, and how their messages help
- `files`: files that appear whole or not at all, locks, JSON, arrays, and the paths of a run
- `runtime`: standard streams, the machine, how TensorFlow is imported, and which cores and devices are used
- `config`: the settings of a run, read from YAML and the command line
- `text`: parallel text -> cleaned pairs -> subword ids -> batches
- `layers`, `attention`, `model`: Keras layers, the attention layers, and the architectures made of them
- `decoding`: greedy search, beam search, sampling, and teacher-forced passes
- `statistics`: how sure a number over sentences is: intervals and tests
- `metrics`: BLEU, chrF and likelihood
- `inspection`: records of attention, their archive, measures, heat maps, the viewer
- `training`: loss, optimizers, one training step, the loop, checkpoints, TensorBoard
- `run`: a run on disk, opened, and one training from its settings to `model.keras`
- `alignment`: word alignments read off attention, and their error rate
- `evaluation`: everything that `evaluate.py` writes
- `exchange`: models of other programs as runs, and runs for other programs
- `live`: a page on which one types sentences, sees and changes attention; served, or with the model inside
- `plugins`: registers what a plugin adds
- `commands`: a module for each command: `qkv NAME`

`train` and `evaluate` are also started as `python train.py` and `python evaluate.py`, without an installation.
"""

from .version import __version__ as __version__

if __name__ != "qkv":  # two copies of a module would have two tables of scores, and Keras would keep either
    raise ImportError(f"the package is called qkv, not {__name__}: add the folder pipeline to Python's path")
