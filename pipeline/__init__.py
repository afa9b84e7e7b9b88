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
- `trained_run`: a finished run, loaded
- `spread`: the work of a finished run, by several processes
- `alignment`: word alignments read off attention, and their error rate
- `evaluation`: everything that `evaluate.py` writes
- `exchange`: models of other programs as runs, and runs for other programs
- `live_page`: a page on which one types sentences, sees and changes attention; served, or with the model inside

- `training_start`: what a training starts from
- `run_training`: one training from its settings to `model.keras`

The commands, a module each: `train`, `evaluate`, `doctor`, `translate`, `align`, `compare`, `measure`, `view`, `draw`,
`live`, `export` and `import_marian`. They are started as `python -m pipeline.NAME`, the first two also as
`python NAME.py`, and installed as `qkv NAME`.
"""

from .version import __version__ as __version__
