"""Measures how long a call from Python takes after the first one: `python tests/benchmarks/python_interface.py RUN`."""

import statistics
import sys
import time
from collections.abc import Callable

import qkv

CALLS = 200


def milliseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Returns the median and the 95th percentile of a call, after one that is not measured."""
    call()
    seconds = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds), 1000 * statistics.quantiles(seconds, n=20)[-1]


def main(path: str) -> None:
    run = qkv.load(path)
    source = "the cat sleeps ."
    target = run.translate(source).text
    calls = {
        "translate": lambda: run.translate(source),
        "translate, other settings": lambda: run.translate(source, beam_size=3, n_best=2),
        "translate and attention": lambda: run.translate(source).attention,
        "align": lambda: run.align(source, target),
    }
    for name, call in calls.items():
        print("{:<26} p50 {:.1f} ms, p95 {:.1f} ms".format(name, *milliseconds(call)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
