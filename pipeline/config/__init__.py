"""The settings of a run: what each means, its unit, its range and its default."""

from .run import RunConfig, load_run_config

__all__ = ["RunConfig", "load_run_config"]
