"""Which version made a run: the first line of its `config.yaml` says it, and a run of a newer one is refused by
name."""

import re
from pathlib import Path

from .errors import InputError
from .version import __version__

MADE_BY = f"# made by qkv {__version__}\n"
_VERSION = re.compile(r"# made by qkv (([0-9]{1,9})\.([0-9]{1,9})\S{0,40})")


def refuse_newer(config: Path, own: str = MADE_BY) -> None:
    """Refuses the run of a later minor or major version. Runs of versions that did not say theirs are earlier.

    Raises:
        InputError: the run was made by a newer version.
    """
    try:
        with config.open(encoding="utf-8", errors="replace") as lines:
            made, this = _VERSION.match(lines.readline(200)), _VERSION.match(own)
    except OSError:  # whoever reads the settings says so
        return
    assert this is not None
    if made is not None and (int(made[2]), int(made[3])) > (int(this[2]), int(this[3])):
        raise InputError(
            f"{config.parent}: made by qkv {made[1]}, and this is qkv {this[1]}, which cannot know what has changed "
            "since; upgrade qkv to use this run"
        )
