"""Uses an installed qkv as a newcomer would, within a minute: `python .ci/smoke.py`.

Imports it, trains a tiny model on a part of data/demo, evaluates it, translates with it, exports it and writes a page.
Needs nothing but this clone and qkv's own packages: no make, no shell, no browser and no TensorFlow Text, so that the
same script runs on Linux, macOS and Windows. (Without TensorFlow Text it needs ctranslate2, to export for it.) Run it
with the Python of the environment that has qkv. One process does it all, since starting TensorFlow takes longest.
"""

import io
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import redirect_stdout
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIRS = {"train": 300, "validation": 20, "test": 20}


def write_corpus(folder: Path) -> list[str]:
    """Writes the first pairs of the demo's text, and returns the options of `qkv train` that name them."""
    options = []
    for name, pairs in PAIRS.items():
        for key, suffix in {"source": "en", "target": "fr", "alignments": "align"}.items():
            lines = (ROOT / "data" / "demo" / f"{name}.{suffix}").read_text(encoding="utf-8").split("\n")[:pairs]
            file = folder / f"{name}.{suffix}"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
            options += [f"--data.{name}.{key}", str(file)]
    return options


def check(good: bool, message: str) -> None:
    """Ends the script with a message unless a thing is good."""
    if not good:
        sys.exit(f"failed: {message}")


def run(command: str, *arguments: str, leaves: Path | None = None) -> str:
    """Runs a command of qkv in this process, and returns what it prints.

    Ends the script if the command fails, or if the file `leaves` is missing or empty afterwards.
    """
    from qkv.__main__ import main

    start, printed = time.monotonic(), io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    with redirect_stdout(printed):
        status = main([command, *arguments])
        printed.flush()
    text = printed.buffer.getvalue().decode("utf-8")
    check(status == 0, f"qkv {command} ended with {status}\n{text}")
    check(leaves is None or (leaves.is_file() and leaves.stat().st_size > 0), f"qkv {command} did not write {leaves}")
    print(f"ok  {command:<10} {time.monotonic() - start:5.1f} s", flush=True)
    return text


def main() -> None:
    """Goes from the installed program to the page."""
    program = shutil.which("qkv", path=sysconfig.get_path("scripts"))
    check(program is not None, f"no program qkv in {sysconfig.get_path('scripts')}")
    version = subprocess.run([str(program), "--version"], capture_output=True, encoding="utf-8", check=True).stdout

    import numpy as np

    import qkv

    check(version == f"qkv {qkv.__version__}\n", f"the program says {version!r}, the package {qkv.__version__}")
    print(f"qkv {qkv.__version__} from {qkv.__file__}, Python {sys.version.split()[0]} on {sys.platform}")
    query, value = np.ones((1, 3, 8), "float32"), np.ones((1, 5, 8), "float32")
    _, weights = qkv.CrossAttention(num_heads=2, key_dim=4)(query, value)
    check(weights.shape == (1, 2, 3, 5), f"attention weights of the shape {weights.shape}")

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        trained = folder / "runs" / "tiny"
        corpus = write_corpus(folder)
        config = ["--config", str(ROOT / "configs" / "tiny.yaml"), "--run.directory", str(folder / "runs")]
        run("train", *config, *corpus, "--training.max_updates", "10", leaves=trained / "model.keras")
        run("evaluate", str(trained), leaves=trained / "evaluations" / "test" / "viewer.html")
        sys.stdin = io.TextIOWrapper(io.BytesIO(b"the cat sleeps .\na dog .\n"), encoding="utf-8")
        translated = run("translate", str(trained))
        check(translated.count("\n") == 2, f"expected two translations, found {translated!r}")
        packages = {distribution.metadata["Name"] for distribution in distributions()}
        kind = "saved_model" if packages & {"tensorflow-text", "tensorflow_text"} else "ctranslate2"
        exported = folder / "exported"
        options = ["--format", kind, "--sentences", "2"]
        run("export", str(trained), str(exported), *options, leaves=exported / "manifest.json")
        page = folder / "page.html"
        run("view", str(trained), "--output", str(page), leaves=page)
    print("all steps worked", flush=True)


if __name__ == "__main__":
    main()
