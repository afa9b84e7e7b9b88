"""Loads the files that a person names with `--plugins`: Python code of their own that registers scores and the like.

They are named on the command line, never in a config, which may come from somebody else and must be data.
"""

import importlib.util
import sys
from pathlib import Path

from ..errors import InputError
from .import_tensorflow import importing_tensorflow

_PREFIX = "qkv_plugin_"  # of the names of their modules


def load_plugins(files: list[Path]) -> None:
    """Runs plugin files, in their order.

    Raises:
        InputError: a file is missing, or its code raises an error or ends the program.
    """
    for file in files:
        if not file.is_file():
            raise InputError(
                f"--plugins: {file}: no such file; expected Python code that registers a score or the like"
            )
    if files:
        with importing_tensorflow():
            import keras  # noqa: F401 - quietly, before plugins import it
    for file in files:
        _run(file)


def loaded_plugins() -> tuple[Path, ...]:
    """Returns the plugin files that were run in this process, in their order."""
    return tuple(Path(str(module.__file__)) for name, module in sys.modules.items() if name.startswith(_PREFIX))


def _run(file: Path) -> None:
    name = f"{_PREFIX}{file.stem}"
    if name in sys.modules and Path(str(sys.modules[name].__file__)) == file.resolve():
        return  # a second command in the same process
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"--plugins: {file}: expected a Python file, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # also what would end the process without a word
        del sys.modules[name]
        reason = ": ".join(filter(None, [type(error).__name__, " ".join(str(error).split())]))
        raise InputError(f"--plugins: {file}: {reason}; mend the plugin, --debug shows where") from error
