"""The version, in its one place, from which pyproject.toml reads it; and the versions of other packages."""

from collections.abc import Iterable
from contextlib import suppress

__version__ = "0.2.0.dev0"


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns the version of each package, of qkv first; packages that are not installed are left out."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"qkv": __version__}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
