"""Confidence intervals, significance tests, and probabilities fitted to outcomes.

The modules, in reading order:

- `resampling`: bootstrap intervals over sentences and seeds
- `significance`: randomisation tests, Holm's correction, bounds of p-values
- `logistic_regression`: logistic regression, and how well its probabilities are calibrated
"""
