"""From settings to a model: the only place that knows both."""

import keras

from pipeline.config import ModelSettings
from pipeline.model.transformer import Transformer


def build_model(settings: ModelSettings, vocabulary_size: int, precision: str = "float32") -> keras.Model:
    """Makes the model that the settings describe, with fresh weights.

    Args:
        settings: the `model` section of a config.
        vocabulary_size: of the trained tokenizer.
        precision: the Keras dtype policy it computes in; weights are float32 in any case.
    """
    model = Transformer(
        vocabulary_size,
        **settings.model_dump(exclude={"scores"}),
        encoder_self_score=settings.scores.encoder_self,
        decoder_self_score=settings.scores.decoder_self,
        cross_score=settings.scores.cross,
        dtype=precision,
        name="transformer",
    )
    model.build((None, None), (None, None))
    return model
