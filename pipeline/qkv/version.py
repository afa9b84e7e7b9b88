"""The version of qkv, which pyproject.toml reads from here; and the versions of other packages."""

import sys
from collections.abc import Iterable
from contextlib import suppress

__version__ = "0.2.0"


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns versions by package name: first the version of qkv, then of each package that is installed.

    An imported module is asked for its version: the package `keras` may have been replaced by `keras-nightly`.
    """
    from importlib.metadata import PackageNotFoundError, version

    versions = {"qkv": __version__}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = getattr(sys.modules.get(package), "__version__", None) or version(package)
    return versions
