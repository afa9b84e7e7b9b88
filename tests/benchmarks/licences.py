"""Lists the licences of everything that is locked in `tests/licences.md`: `make licences`.

`pip-licenses` reads them from the installed packages. Versions are left out: they are in the lock files.
"""

import json
import subprocess
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.support.locks import locked

ROOT = Path(__file__).parents[2]
ONLY_A_FILE = {"namex": "Apache-2.0", "axe-playwright-python": "MIT License"}  # they do not name the licence they ship
IN_PARTS = {"docutils": "BSD License; Public Domain"}  # the GPL is that of a mode for Emacs, which no wheel has
OF_OTHER_SYSTEMS = {"appnope": "BSD-2-Clause", "pywin32-ctypes": "BSD-3-Clause"}  # not installed here
HEAD = """# Licences of what is installed

`make licences` writes this list, by `pip-licenses`, of all packages in [requirements.lock](../requirements.lock) and
[tests/requirements.lock](requirements.lock). qkv contains none of them.

| licence | packages of qkv | further packages of the tests |
|---|---|---|
"""


def installed_licences() -> dict[str, str]:
    """The licence of each package of this environment, by its normalised name."""
    command = [Path(sys.executable).parent / "pip-licenses", "--format=json", "--from=mixed", "--with-system"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return (
        {canonicalize_name(one["Name"]): one["License"] for one in listed} | ONLY_A_FILE | IN_PARTS | OF_OTHER_SYSTEMS
    )


def main() -> None:
    """Writes the list."""
    licences = installed_licences()
    running = {pin.name for pin in locked("requirements.lock")}
    names = sorted({pin.name for pin in locked("tests/requirements.lock")})
    rows = []
    for licence in sorted({licences[name] for name in names}):
        licensed = [name for name in names if licences[name] == licence]
        of_qkv = ", ".join(name for name in licensed if name in running)
        of_tests = ", ".join(name for name in licensed if name not in running)
        rows.append(f"| {licence} | {of_qkv} | {of_tests} |\n")
    (ROOT / "tests" / "licences.md").write_text(HEAD + "".join(rows), encoding="utf-8")
    print(f"tests/licences.md: {len(names)} packages")


if __name__ == "__main__":
    main()
