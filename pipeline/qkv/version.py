"""The version of qkv, which pyproject.toml reads from here; and the versions of other packages."""

from collections.abc import Iterable
from contextlib import suppress

__version__ = "0.2.0"


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns versions by package name: first the version of qkv, then of each package that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"qkv": __version__}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
