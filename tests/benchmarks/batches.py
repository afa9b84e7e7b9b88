"""Times what training does with encoded text: checking, choosing, planning an epoch, and making its batches.

    python -m tests.benchmarks.batches [--pairs 1000000] [--batch_tokens 3072]
    python -m tests.benchmarks.batches --padding runs/demo

The text is drawn at random, with lengths as sentences have them, and is mapped from disk. `--padding` prints the
padding and the milliseconds of packed and of padded batches of the text of a run instead.
"""

import argparse
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from qkv.text.batch import make_batch
from qkv.text.batch_plan import EpochPlan, plan_batches
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences
from qkv.text.tokens.special_tokens import PAD
from qkv.training.batches import TrainingBatches
from tests.benchmarks.contest import machine

VOCABULARY = 8000
MOST_BATCHES = 3000


def main() -> None:
    """Prints seconds of processor time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000, help="(default: 1000000)")
    parser.add_argument("--batch_tokens", type=int, default=3072, help="(default: 3072)")
    parser.add_argument("--padding", type=Path, metavar="RUN", help="the folder of a run, whose text is used instead")
    options = parser.parse_args()
    if options.padding is not None:
        compare_padding(EncodedPairs.load(options.padding / "encoded" / "train"))
        return
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train")
        EncodedPairs(*(draw_sentences(options.pairs, random) for _ in range(2))).save(path)
        clock = Clock()
        pairs = EncodedPairs.load(path)
        clock.say("mapped and checked")
        pairs.select(random.permutation(options.pairs), random.integers(options.pairs, size=(options.pairs // 10, 2)))
        clock.say("chosen in another order, a tenth joined")
        plan = EpochPlan(pairs, partial(plan_batches, batch_tokens=options.batch_tokens), seed=1, epoch=0)
        planned = plan.batches()
        first = next(planned)
        clock.say("the first window of an epoch planned")
        rows = [first, *islice(planned, MOST_BATCHES - 1)]
        batches = [make_batch(pairs, one) for one in rows]
        seconds = clock.say(f"{len(batches):,} batches made")
        count = plan.count
        clock.say(f"all {count:,} batches counted")
    tokens = sum(int((ids != PAD).sum()) for batch in batches for ids in (batch.source, batch.target_output))
    print(f"{tokens / seconds:,.0f} tokens/s, source and target\n{machine()}; {options.pairs:,} pairs")


def compare_padding(pairs: EncodedPairs) -> None:
    """Prints shape, number and padding of packed and padded batches of several sizes, and the time to make one."""
    for batch_tokens in (1024, 4096, 16_384, 65_536):
        for packed in (True, False):
            sizes = {"batch_tokens": batch_tokens, "length_multiple": 1, "seed": 1}
            batches = TrainingBatches([pairs], tf.distribute.get_strategy(), **sizes, packed=packed)
            plan = batches.plan(0)
            started = time.process_time()
            count = sum(1 for _ in islice(batches.epoch(0), MOST_BATCHES))
            milliseconds = 1000 * (time.process_time() - started) / count
            kind = f"packed {batches.rows.shape}" if packed else "padded"
            padding = f"{plan.count:6,} batches, {100 * plan.padding_share:4.1f} % padding"
            print(f"{batch_tokens:6,} tokens  {kind:22}  {padding}, {milliseconds:6.3f} ms of processor time each")
    print(machine())


def draw_sentences(count: int, random: np.random.Generator) -> EncodedSentences:
    """Draws sentences of 1 to 100 tokens, 13 on average."""
    lengths = np.clip(random.gamma(4, 3.5, count).astype(int), 1, 100)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return EncodedSentences(random.integers(4, VOCABULARY, starts[-1], dtype=np.int32), starts)


class Clock:
    """Processor time since the last line that it said."""

    def __init__(self) -> None:
        self._started = time.process_time()

    def say(self, what: str) -> float:
        """Prints how long it took, and returns that."""
        seconds = time.process_time() - self._started
        print(f"{seconds:8.3f} s  {what}")
        self._started = time.process_time()
        return seconds


if __name__ == "__main__":
    main()
