"""Finds out whether every pinned package has a wheel for each system and Python: `make wheels`. Installs nothing."""

import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PLATFORMS = {
    "Linux x86_64": ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"],
    "Linux aarch64": ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64"],
    "macOS arm64": ["macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"],
    "Windows": ["win_amd64"],
}
PYTHONS = ("3.11", "3.12", "3.13")


def pins(system: str) -> list[str]:
    """The pins of requirements.txt for a system."""
    project = (line.strip() for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines())
    found = [Requirement(line) for line in project if line and not line.startswith("#")]
    return [f"{pin.name}{pin.specifier}" for pin in found if (pin.name, system) != ("tensorflow-text", "Windows")]


def have_wheels(pins: list[str], python: str, platforms: list[str]) -> bool:
    """Whether each of these has a wheel that fits."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary", ":all:", "--target", folder, "--python-version", python]
        command += [word for platform in platforms for word in ("--platform", platform)]
        return subprocess.run([*command, *pins], capture_output=True).returncode == 0


def main() -> int:
    """Prints a line for each system and Python."""
    lacking = 0
    for system, platforms in PLATFORMS.items():
        for python in PYTHONS:
            wanted = pins(system)
            absent: list[str] = []
            if not have_wheels(wanted, python, platforms):
                absent = [pin for pin in wanted if not have_wheels([pin], python, platforms)]
            lacking += len(absent)
            said = f"no wheel of {', '.join(absent)}" if absent else "all there"
            print(f"{system:<14} Python {python}: {len(wanted)} packages, {said}", flush=True)
    return lacking > 0


if __name__ == "__main__":
    sys.exit(main())
