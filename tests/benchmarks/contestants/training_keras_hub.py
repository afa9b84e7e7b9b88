"""The same sizes with KerasHub's `TransformerEncoder` and `TransformerDecoder`."""

import keras
import keras_hub

from tests.benchmarks.contestants.keras_turn import training_turn


def prepare(settings):
    """`settings["precision"]` is the Keras dtype policy."""
    keras.config.set_dtype_policy(settings["precision"])
    length, vocabulary = settings["length"], settings["vocabulary"]
    block = {"intermediate_dim": settings["hidden"], "num_heads": settings["heads"], "dropout": settings["dropout"]}
    embedding = keras_hub.layers.TokenAndPositionEmbedding(vocabulary, length, settings["width"], tie_weights=True)
    source, target = (keras.Input((length,), dtype="int32") for _ in range(2))
    memory, x = embedding(source), embedding(target)
    for _ in range(settings["layers"]):
        memory = keras_hub.layers.TransformerEncoder(**block)(memory)
    for _ in range(settings["layers"]):
        x = keras_hub.layers.TransformerDecoder(**block)(x, memory)
    model = keras.Model([source, target], embedding.token_embedding(x, reverse=True))
    return training_turn(model, settings, lambda logits: logits)
