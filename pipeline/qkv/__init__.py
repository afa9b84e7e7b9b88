"""qkv trains a small neural translator and shows where its attention went.

    import qkv

    run = qkv.load("runs/demo")
    run.translate("the cat sleeps .").text

The names of the package are imported when they are first used, since TensorFlow takes seconds; docs/use/python.md has
examples. The packages, in the order in which they may import each other:

- `errors`: errors that a person can mend, and how their messages help
- `files`: files that appear whole or not at all, locks, JSON, arrays, and the paths of a run
- `runtime`: standard streams, the machine, how TensorFlow is imported, and which cores and devices are used
- `config`: the settings of a run, read from YAML and the command line
- `text`: parallel text -> cleaned pairs -> subword ids -> batches
- `layers`, `attention`, `model`: Keras layers, the attention layers, and the architectures made of them
- `decoding`: greedy search, beam search, sampling, and teacher-forced passes
- `losses`: the loss for `compile` of Keras
- `statistics`: how sure a number over sentences is: intervals and tests
- `metrics`: BLEU, chrF and likelihood
- `inspection`: records of attention, their archive, measures, heat maps, the viewer
- `training`: loss, optimizers, one training step, the loop, checkpoints, TensorBoard
- `run`: a run on disk, opened, and one training from its settings to `model.keras`
- `alignment`: word alignments read off attention, and their error rate
- `evaluation`: everything that `evaluate.py` writes
- `exchange`: models of other programs as runs, and runs for other programs
- `live`: a page on which one types sentences, sees and changes attention; served, or with the model inside
- `api`: runs from Python: `load`, `train` and what a run can do
- `plugins`: registers what a plugin adds
- `commands`: a module for each command: `qkv NAME`

`train` and `evaluate` are also started as `python train.py` and `python evaluate.py`, without an installation.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from . import losses as losses
    from . import metrics as metrics
    from .api import Evaluation as Evaluation
    from .api import Run as Run
    from .api import Translated as Translated
    from .api import TranslatedText as TranslatedText
    from .api import import_marian as import_marian
    from .api import load as load
    from .api import train as train
    from .attention import AdditiveAttention as AdditiveAttention
    from .attention import CrossAttention as CrossAttention
    from .attention import MultiHeadAttention as MultiHeadAttention
    from .attention import SelfAttention as SelfAttention
    from .errors import InputError as InputError
    from .inspection.archive import AttentionArchive as AttentionArchive
    from .run.keras_batches import batches as batches
    from .run.load_model import DecoderOnly as DecoderOnly
    from .run.load_model import Recurrent as Recurrent
    from .run.load_model import Transformer as Transformer
    from .run.load_model import load_model as load_model

if __name__ != "qkv":  # two copies of a module would have two tables of scores, and Keras would keep either
    raise ImportError(f"the package is called qkv, not {__name__}: add the folder pipeline to Python's path")

_PLACES = {
    "api": ("Evaluation", "Run", "Translated", "TranslatedText", "import_marian", "load", "train"),
    "attention": ("AdditiveAttention", "CrossAttention", "MultiHeadAttention", "SelfAttention"),
    "errors": ("InputError",),
    "inspection.archive": ("AttentionArchive",),
    "run.keras_batches": ("batches",),
    "run.load_model": ("DecoderOnly", "Recurrent", "Transformer", "load_model"),  # registers all that is saved
}
"""The names of each module that are the package's as well."""

_MODULES = ("losses", "metrics")
"""Modules that are imported when they are first used, as names of the package."""


def __getattr__(name: str) -> Any:
    place = name if name in _MODULES else next((place for place, names in _PLACES.items() if name in names), None)
    if place is None:
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    module = import_module(f".{place}", "qkv")
    globals()[name] = found = module if name in _MODULES else getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES}.union(*_PLACES.values()))
