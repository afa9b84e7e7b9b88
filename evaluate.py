"""Evaluates a trained run: `python evaluate.py runs/demo`, or `--help`."""

import sys

from pipeline.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
