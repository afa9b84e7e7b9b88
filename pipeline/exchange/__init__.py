"""Models in and out: other programs' models as runs, and runs as other programs' models."""
