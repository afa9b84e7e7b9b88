"""What plugins register, undone."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from qkv.attention.mechanisms import MECHANISM_CLASSES
from qkv.attention.scores import SCORE_CLASSES
from qkv.config import choices
from qkv.config.run import RunConfig
from qkv.inspection.measures import MEASURES
from qkv.metrics import METRIC_FUNCTIONS
from qkv.model.build import MODELS
from qkv.training.schedule import SCHEDULE_FUNCTIONS

TABLES = (
    choices.model.ARCHITECTURES,
    choices.model.PARTS_MISSING,
    choices.model.TAKES_SEGMENTS,
    choices.model.SCORE_INFO,
    choices.model.MECHANISM_INFO,
    choices.training.SCHEDULE_INFO,
    choices.translation.METRIC_INFO,
    MODELS,
    SCORE_CLASSES,
    MECHANISM_CLASSES,
    SCHEDULE_FUNCTIONS,
    METRIC_FUNCTIONS,
    MEASURES,
)


@contextmanager
def registrations_undone() -> Iterator[None]:
    """Takes back, at the end of the block, what plugins have registered in it, and forgets their files."""
    files = set(sys.modules)
    rows = [dict(table) for table in TABLES]
    field = RunConfig.model_fields["model"]
    kinds = field.annotation
    try:
        yield
    finally:
        for table, before in zip(TABLES, rows, strict=True):
            table.clear()
            table.update(before)
        for name in [name for name in sys.modules if name not in files and name.startswith("qkv_plugin_")]:
            del sys.modules[name]
        field.annotation = kinds
        RunConfig.model_rebuild(force=True)
