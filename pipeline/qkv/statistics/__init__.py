"""The certainty of numbers over sentences: intervals, tests, and fitted probabilities."""
