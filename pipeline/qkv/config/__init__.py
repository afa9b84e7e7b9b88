"""The settings of a run: what each means, its unit, its range and its default.

`RunConfig` and `load_run_config` are imported at their first use: `names` needs neither pydantic nor YAML.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import RunConfig, load_run_config

__all__ = ["RunConfig", "load_run_config"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import run

    return getattr(run, name)
