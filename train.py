"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "pipeline"))  # no installation is needed

from qkv.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
