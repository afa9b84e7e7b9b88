"""qkv trains a small neural translator and shows where its attention went.

    import qkv

    run = qkv.load("runs/demo")
    run.translate("the cat sleeps .").text

The names of the package are imported at their first use, since importing TensorFlow takes seconds; docs/use/python.md
has examples. The modules, in reading order, which is also the order in which they may import each other:

- `version`: the version of the package
- `errors`: the errors that the user can fix, and their messages
- `files`: atomic writing of files, locks, JSON, arrays, and the paths of a run
- `runtime`: standard streams, the machine, the import of TensorFlow, and the cores and devices in use
- `config`: the settings of a run, from YAML and the command line
- `text`: parallel text, its cleaned pairs, their subword ids, and batches
- `layers`: the Keras layers other than attention
- `attention`: the attention layers
- `model`: the architectures
- `decoding`: greedy search, beam search, sampling, and teacher-forced passes
- `losses`: the loss for `compile` of Keras
- `statistics`: confidence intervals and tests of numbers over sentences
- `metrics`: BLEU, chrF and likelihood
- `inspection`: records of attention, their archive, measures, heat maps, and the viewer
- `training`: loss, optimizers, the training step, the loop, checkpoints, and TensorBoard
- `run`: runs on disk, and one training from its settings to `model.keras`
- `alignment`: word alignments from attention, and their error rate
- `markup`: tags and placeholders, taken out of a text and put back into its translation
- `evaluation`: the evaluation of runs: all files that `evaluate.py` writes, and comparisons
- `exchange`: models of other programs as runs, and runs for other programs
- `live`: the page for typing sentences, seeing attention and changing it; served, or with the model in the file
- `results`: the results of the methods of a run: translations and evaluations
- `api`: the Python interface: `load`, `train` and the methods of a run
- `plugins`: the registration of scores, mechanisms and other parts that a plugin adds
- `commands`: a module for each command: `qkv NAME`
- `__main__`: the program `qkv`, which starts a command

`train` and `evaluate` can also be started as `python train.py` and `python evaluate.py`, without an installation.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from . import losses as losses
    from . import metrics as metrics
    from .api import Run as Run
    from .api import import_marian as import_marian
    from .api import load as load
    from .api import train as train
    from .attention import AdditiveAttention as AdditiveAttention
    from .attention import CrossAttention as CrossAttention
    from .attention import MultiHeadAttention as MultiHeadAttention
    from .attention import SelfAttention as SelfAttention
    from .errors import InputError as InputError
    from .inspection.archive import AttentionArchive as AttentionArchive
    from .inspection.heatmap import heatmap as heatmap
    from .layers.tap import tap as tap
    from .layers.tap import tapped as tapped
    from .model.transformer import BlockSpec as BlockSpec
    from .model.transformer import DecoderBlock as DecoderBlock
    from .model.transformer import EncoderBlock as EncoderBlock
    from .model.transformer import FeedForward as FeedForward
    from .model.transformer import Residual as Residual
    from .results import Evaluation as Evaluation
    from .results import Translated as Translated
    from .results import TranslatedText as TranslatedText
    from .run.keras_batches import batches as batches
    from .run.load_model import DecoderOnly as DecoderOnly
    from .run.load_model import Recurrent as Recurrent
    from .run.load_model import Transformer as Transformer
    from .run.load_model import load_model as load_model

__all__ = [
    "AdditiveAttention",
    "AttentionArchive",
    "BlockSpec",
    "CrossAttention",
    "DecoderBlock",
    "DecoderOnly",
    "EncoderBlock",
    "Evaluation",
    "FeedForward",
    "InputError",
    "MultiHeadAttention",
    "Recurrent",
    "Residual",
    "Run",
    "SelfAttention",
    "Transformer",
    "Translated",
    "TranslatedText",
    "__version__",
    "batches",
    "heatmap",
    "import_marian",
    "load",
    "load_model",
    "losses",
    "metrics",
    "tap",
    "tapped",
    "train",
]

# Two copies of a module would have two tables of scores, and Keras would use either.
if __name__ != "qkv":
    raise ImportError(f"the package is called qkv, not {__name__}: add the folder pipeline to Python's path")

_EXPORTS = {
    "api": ("Run", "import_marian", "load", "train"),
    "attention": ("AdditiveAttention", "CrossAttention", "MultiHeadAttention", "SelfAttention"),
    "errors": ("InputError",),
    "inspection.archive": ("AttentionArchive",),
    "inspection.heatmap": ("heatmap",),
    "layers.tap": ("tap", "tapped"),
    "model.transformer": ("BlockSpec", "DecoderBlock", "EncoderBlock", "FeedForward", "Residual"),
    "results": ("Evaluation", "Translated", "TranslatedText"),
    "run.keras_batches": ("batches",),
    "run.load_model": ("DecoderOnly", "Recurrent", "Transformer", "load_model"),  # registers all saved classes
}
"""The names that `qkv` re-exports, by the module that defines them."""

_MODULES = ("losses", "metrics")
"""The modules that are imported at their first use as attributes of `qkv`."""


def __getattr__(name: str) -> Any:
    """Imports and returns an exported object or module at its first use; raises an `AttributeError` for other names."""
    if name in _MODULES:
        value: Any = import_module(f".{name}", "qkv")
    else:
        module_name = next((module_name for module_name, names in _EXPORTS.items() if name in names), None)
        if module_name is None:
            raise AttributeError(f"module 'qkv' has no attribute {name!r}")
        value = getattr(import_module(f".{module_name}", "qkv"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns the names of the package, including those that are not imported yet."""
    return sorted({*globals(), *_MODULES}.union(*_EXPORTS.values()))
