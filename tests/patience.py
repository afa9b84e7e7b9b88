"""How long a test waits for what must come, before it says that it did not."""

PATIENCE_SECONDS = 900
"""Ends a test that would wait for ever, and no other: far beyond what the slowest machine takes."""
