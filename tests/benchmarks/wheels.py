"""Finds out whether everything that is locked has a wheel for each system and Python: `make wheels`.

Installs nothing; hashes are compared only when a wheel is fetched.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLATFORMS = {
    "Linux x86_64": "x86_64-unknown-linux-gnu",
    "Linux aarch64": "aarch64-unknown-linux-gnu",
    "macOS arm64": "aarch64-apple-darwin",
    "Windows": "x86_64-pc-windows-msvc",
}
PYTHONS = ("3.11", "3.12", "3.13")


def resolve(lock: str, platform: str, python: str) -> str:
    """Returns what keeps the packages of a lock file from being installed there; nothing if they can be."""
    command = [Path(sys.executable).parent / "uv", "pip", "install", "--dry-run", "--quiet", "--no-config", "--no-deps"]
    command += ["--only-binary", ":all:", "--requirements", ROOT / lock]
    command += ["--python-platform", platform, "--python-version", python]
    with tempfile.TemporaryDirectory() as empty:
        return subprocess.run([*command, "--target", empty], capture_output=True, text=True).stderr.strip()


def main() -> int:
    """Prints a line for each system and Python."""
    lacking = 0
    for system, platform in PLATFORMS.items():
        for python in PYTHONS:
            complaint = resolve("tests/requirements.lock", platform, python)
            lacking += bool(complaint)
            print(f"{system:<14} Python {python}: {complaint or 'all there'}", flush=True)
    return lacking > 0


if __name__ == "__main__":
    sys.exit(main())
