"""Runs plugin files, the user's Python files that register scores, metrics and other parts.

They are named by the option `--plugins`, never in a config. A config may come from somebody else, so it must not run
code.
"""

import importlib.util
import sys
from pathlib import Path

from ..errors import InputError
from .import_tensorflow import importing_tensorflow

_MODULE_PREFIX = "qkv_plugin_"  # the names of the modules of plugin files begin with this


def load_plugins(files: list[Path]) -> None:
    """Runs plugin files in their order. A file that this process has run already is not run again.

    Raises:
        InputError: a file is missing or is not a Python file, or its code raises an error or exits the program.
    """
    for file in files:
        if not file.is_file():
            raise InputError(
                f"--plugins: {file}: no such file; expected a Python file that registers a score or another part"
            )
    if files:
        with importing_tensorflow():
            import keras  # noqa: F401 - imported silently here, before plugins import it
    for file in files:
        _run(file)


def loaded_plugins() -> tuple[Path, ...]:
    """Returns the plugin files that were run in this process, in their order."""
    return tuple(Path(str(module.__file__)) for name, module in sys.modules.items() if name.startswith(_MODULE_PREFIX))


def _run(file: Path) -> None:
    """Runs a plugin file, unless its module is loaded; raises an `InputError` as `load_plugins` does."""
    name = f"{_MODULE_PREFIX}{file.stem}"
    if name in sys.modules and Path(str(sys.modules[name].__file__)) == file.resolve():
        return  # an earlier command in the same process has run it
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"--plugins: {file}: expected a Python file, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # also SystemExit, which would end the process without a message
        del sys.modules[name]
        reason = ": ".join(filter(None, [type(error).__name__, " ".join(str(error).split())]))
        raise InputError(f"--plugins: {file}: {reason}; fix the plugin: --debug shows the line") from error
