"""Keras layers that take less time than Keras' own, and base classes of all layers and models.

The modules, in reading order:

- `constructor_config`: base classes for configs and replaceable layers, and seeds of parts
- `keras_layers`: `Dense`, `Dropout` and `LayerNormalization` with fewer passes over memory, and shapes of arrays
- `low_rank`: fine-tuning by matrices of low rank (LoRA)
- `tap`: hooks that read and replace values within layers
"""
