"""Defines the settings of a run, with the meaning, range and default of each, and reads them from YAML files.

`RunConfig` and `load_run_config` are imported when they are first used, because `choices` needs neither pydantic nor
YAML.

The modules, in reading order:

- `choices`: the allowed values of settings, and their help texts
- `schema`: the base class of all sections, and descriptions of types and ranges
- `data`: section `data`, the text
- `corpus`: the files of a corpus, in section `data`
- `tokenizer`: section `tokenizer`
- `batches`: section `batches`
- `model`: section `model`, for each architecture
- `attention`: the attention of Transformers, in section `model`
- `training`: section `training`
- `decoding`: section `decoding`
- `inspection`: section `inspection`
- `run`: section `run`, the whole config, and its loading
- `yaml`: reading, writing and editing of YAML text
- `messages`: the validation of settings, and its error messages
- `ancestor`: comparison with the run that training starts from
- `ensemble`: comparison of the runs of an ensemble
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
