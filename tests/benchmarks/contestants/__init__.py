"""What takes part in `tests.benchmarks.contest`."""
