"""Keras layers on which a training step spends much time, rewritten to read and write memory less often."""
