"""The file of a page: its name, and the mark by which a page is known again that shows the same."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ...files.atomic import writable_only

_MARK = re.compile(rb'<meta name="qkv-origin" content="([0-9a-f]+)">')


def name_page(evaluations: Sequence[tuple[str, str]]) -> tuple[list[str], str]:
    """Returns the names of the evaluations on a page, and its title, from the (run, set) of each; the set of an archive
    without a run is empty."""
    runs, sets = zip(*evaluations, strict=True)
    if len(set(sets)) == 1:
        return list(runs), ", ".join(filter(None, (" and ".join(runs), sets[0])))
    if len(set(runs)) == 1:
        return list(sets), f"{runs[0]}, {' and '.join(sets)}"
    names = [", ".join(filter(None, evaluation)) for evaluation in evaluations]
    return names, " and ".join(names)


def file_name(title: str) -> str:
    """Returns the name of a page's file: `demo and narrow, test` is in `demo_and_narrow_test.html`."""
    words = re.sub(r"[^\w.-]+", "_", title)
    return f"{words[:100]}.html"


def origin_of(folders: Sequence[Path]) -> str:
    """Returns a digest of the folders that a page shows: the page may be sent to others, so it does not name them."""
    names = json.dumps([str(folder.resolve()) for folder in folders])
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def refuse_other_file(path: Path, origin: str, shown: str = "these evaluations", option: str = "--output") -> None:
    """Refuses to overwrite anything but a page of the same origin.

    Raises:
        InputError: another page, or another file, is there.
    """
    if not path.exists() or writable_only(path):
        return
    mark = _MARK.search(path.read_bytes()[:4096]) if path.is_file() else None
    if mark is None or mark[1].decode() != origin:
        raise InputError(
            f"{path}: already there, and not the page of {shown}; choose another name with {option}, or delete it"
        )
