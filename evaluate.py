"""Evaluates a trained run: `python evaluate.py runs/demo`, or `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "pipeline"))  # no installation is needed

from qkv.commands.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
