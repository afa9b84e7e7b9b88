"""Models of other programs as runs, and runs as models of other programs."""
