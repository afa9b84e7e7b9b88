"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import sys

from pipeline.train import main

if __name__ == "__main__":
    sys.exit(main())
