"""Layers of Keras that a training step spends much time on, made to touch memory less often."""
