"""Every closed list of names, in one place, with what each member can do.

Configs, help texts, checks, layers, the viewer and TensorBoard read these tables. This module imports nothing heavy, so
that `--help` stays fast. The tables from name to class or function (`SCORES` in `attention/scores`, `MECHANISMS` in
`attention/mechanisms`, ...) live beside the classes; tests/config/test_names.py holds them against these.

`qkv.plugins` adds rows at run time, so look names up when they are needed and keep no copy of a table.
"""

from .attention import (
    ATTENTION_SITES,
    MECHANISMS,
    SCORES,
    Mechanism,
    Score,
    fixed_weights,
    mechanisms_at,
    recurrent_attentions,
)
from .bleu_tokenizers import BLEU_TOKENIZERS, BleuTokenizer, bleu_tokenizer_of
from .decoding import BEAM_ENDS, LENGTH_DIVISORS, SEARCHES
from .exchange import EXPORT_FORMATS, QUANTIZATIONS
from .inspection import (
    EXTRACTIONS,
    HEAD_TYPES,
    LABEL_SIDES,
    MEAN_WEIGHTS,
    OUTPUT_ABLATIONS,
    PROBABLE,
    RECORD_MODES,
    REMOVALS,
    SITES,
    SOURCE_SCORERS,
    SYMMETRISATIONS,
    HeadType,
    Site,
)
from .model import (
    ACTIVATIONS,
    ARCHITECTURES,
    MODEL_PARTS,
    NORMS,
    PARTS_MISSING,
    POSITION_PLACES,
    POSITIONS,
    RECURRENT_DECODERS,
    RELATIVE_POSITIONS,
    TIED_EMBEDDINGS,
    WHOLE_MODEL,
)
from .text import (
    CORPUS_ACTIONS,
    CORPUS_FILTERS,
    CORPUS_PROBLEMS,
    DATA_SETS,
    EUROPARL_LANGUAGES,
    SCRIPTS,
    TOKENIZERS,
    WORD_MARKS,
    WORD_UNITS,
)
from .training import (
    CALLBACKS,
    METRICS,
    OPTIMIZERS,
    REFUSED_CALLBACKS,
    SCHEDULES,
    Callback,
    Metric,
    Schedule,
    choosing_metrics,
    rank,
)

__all__ = [
    "ACTIVATIONS",
    "ARCHITECTURES",
    "ATTENTION_SITES",
    "BEAM_ENDS",
    "BLEU_TOKENIZERS",
    "CALLBACKS",
    "CORPUS_ACTIONS",
    "CORPUS_FILTERS",
    "CORPUS_PROBLEMS",
    "DATA_SETS",
    "EUROPARL_LANGUAGES",
    "EXPORT_FORMATS",
    "EXTRACTIONS",
    "HEAD_TYPES",
    "LABEL_SIDES",
    "LENGTH_DIVISORS",
    "MEAN_WEIGHTS",
    "MECHANISMS",
    "METRICS",
    "MODEL_PARTS",
    "NORMS",
    "OPTIMIZERS",
    "OUTPUT_ABLATIONS",
    "PARTS_MISSING",
    "POSITIONS",
    "POSITION_PLACES",
    "PROBABLE",
    "QUANTIZATIONS",
    "RECORD_MODES",
    "RECURRENT_DECODERS",
    "REFUSED_CALLBACKS",
    "RELATIVE_POSITIONS",
    "REMOVALS",
    "SCHEDULES",
    "SCORES",
    "SCRIPTS",
    "SEARCHES",
    "SITES",
    "SOURCE_SCORERS",
    "SYMMETRISATIONS",
    "TIED_EMBEDDINGS",
    "TOKENIZERS",
    "WHOLE_MODEL",
    "WORD_MARKS",
    "WORD_UNITS",
    "BleuTokenizer",
    "Callback",
    "HeadType",
    "Mechanism",
    "Metric",
    "Schedule",
    "Score",
    "Site",
    "bleu_tokenizer_of",
    "choosing_metrics",
    "describe",
    "fixed_weights",
    "mechanisms_at",
    "rank",
    "recurrent_attentions",
]


def describe(table: dict) -> str:
    """Returns `name: meaning; name: meaning`, for help texts."""
    return "; ".join(f"{name}: {getattr(row, 'meaning', row)}" for name, row in table.items())
