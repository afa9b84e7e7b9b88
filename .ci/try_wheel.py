"""Installs the wheel in new environments, and uses it there: `make release`. Takes minutes, and needs the network.

The environments: each Python that the project names and the machine has, with the newest packages that the wheel
allows; and the lowest of these Pythons with the lowest packages, `tests/lower.txt`. In each, the installed wheel runs
`.ci/smoke.py`, and then the examples of docs/use/python.md as they are written, in a folder with the demo's run, its
text and its config.

    python .ci/try_wheel.py                         every Python that is found
    python .ci/try_wheel.py python3.11 python3.13   these
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-release"
UV = Path(sys.executable).with_name("uv")
PAGE = ROOT / "docs" / "use" / "python.md"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def version_of(python: str) -> str | None:
    """Returns the version of an interpreter, such as 3.12; None if it does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, encoding="utf-8", env=ENVIRONMENT)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_pythons(named: list[str]) -> dict[str, str]:
    """Returns an interpreter for each version of Python that the project names and the machine has.

    Args:
        named: interpreters to take instead of those on the path and of pyenv. One that does not run ends the script.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    if named:
        pythons = {version_of(python): python for python in named}
        if unknown := [python for version, python in pythons.items() if version not in versions]:
            sys.exit(f"error: {', '.join(unknown)}: expected interpreters of Python {', '.join(versions)}")
        return {version: pythons[version] for version in versions if version in pythons}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    pythons = {}
    for version in versions:
        candidates = [f"python{version}", *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
        runs = [python for python in candidates if version_of(python) == version]
        if runs:
            pythons[version] = runs[0]
        else:
            print(f"== Python {version}: not on this machine, not tried", flush=True)
    return pythons


def run(what: str, *command: str | Path, folder: Path = ROOT) -> str:
    """Runs a command and returns what it prints; ends the script if it fails."""
    start = time.monotonic()
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8",
    )  # fmt: skip
    print(f"   {what}: {'failed' if done.returncode else 'ok'}, {time.monotonic() - start:.0f} s", flush=True)
    if done.returncode:
        sys.exit(done.stdout)
    return done.stdout


def write_examples(folder: Path) -> None:
    """Fills a folder with the code of the page, and with what the page says that it needs."""
    folder.mkdir()
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (folder / "examples.py").write_text("\n".join([*code, "print(qkv.__file__)"]), encoding="utf-8")
    for name in ("runs/demo", "data/demo", "configs"):
        unneeded = shutil.ignore_patterns("*tfevents*", "checkpoints", "evaluations")
        shutil.copytree(ROOT / name, folder / name, ignore=unneeded)


def try_wheel(wheel: Path, python: str, name: str, packages: list[str | Path]) -> None:
    """Makes an environment, installs the wheel in it, and uses it there.

    Args:
        wheel: the file.
        python: the interpreter of the environment.
        name: the name of the environment's folder.
        packages: further arguments of `uv pip install`.
    """
    environment = FOLDER / name
    own = environment / "bin" / "python"
    run("environment", UV, "venv", "--quiet", "--no-config", "--python", python, environment)
    run("install", UV, "pip", "install", "--quiet", "--no-config", "--python", own, wheel, *packages)
    said = run("smoke", own, ROOT / ".ci" / "smoke.py")
    if str(environment) not in said:
        sys.exit(f"error: the package is not the installed one\n{said}")
    print("".join(f"      {line}\n" for line in said.splitlines() if line.startswith(("ok ", "qkv "))), end="")
    write_examples(environment / "examples")
    said = run(f"examples of {PAGE.name}", own, "examples.py", folder=environment / "examples")
    first, *_, package = said.splitlines()
    if str(environment) not in package or "le chat dort ." not in said:
        sys.exit(f"error: {first}: expected a translation by the installed package\n{said}")
    shutil.rmtree(environment)


def main() -> None:
    """Tries the wheel in each environment, one after the other."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    pythons = find_pythons(sys.argv[1:])
    if not pythons:
        sys.exit("error: no Python found")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for version, python in pythons.items():
        print(f"== Python {version}, newest packages: {python}", flush=True)
        try_wheel(wheel, python, f"newest-{version}", [])
    version, python = next(iter(pythons.items()))
    print(f"== Python {version}, lowest packages: {python}", flush=True)
    try_wheel(wheel, python, f"lowest-{version}", ["-r", ROOT / "tests" / "lower.txt"])
    print(f"{wheel.name} works on Python {', '.join(pythons)}, and on the lowest versions of all packages")


if __name__ == "__main__":
    main()
