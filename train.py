"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`.

Kept short on purpose: it only joins the parts, each of which says in its own file what it does.
"""

import logging
import sys

from pipeline.cli import exit_cleanly
from pipeline.config.command_line import parse_train_arguments
from pipeline.runtime.import_tensorflow import importing_tensorflow


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the settings, trains, and says where the results are. TensorFlow is loaded only once they are valid."""
    settings = parse_train_arguments(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("pipeline").setLevel(logging.INFO)  # TensorFlow's own information is for its developers
    with importing_tensorflow():
        from pipeline.train import train

    return train(settings.config, resume=settings.resume)


if __name__ == "__main__":
    sys.exit(main())
