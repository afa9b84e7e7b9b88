"""The Marian architecture of Hugging Face, of the same size, with random weights."""

from tests.benchmarks.contestants.torch_turn import training_turn
from tests.benchmarks.converted import marian_config


def prepare(settings):
    """`settings["precision"]` is float32 or bfloat16."""
    from transformers import MarianMTModel

    model = MarianMTModel(
        marian_config(
            settings["vocabulary"],
            settings["width"],
            settings["heads"],
            settings["hidden"],
            settings["layers"],
            settings["layers"],
            positions=settings["length"],
            dropout=settings["dropout"],
        )
    ).train()

    def logits_of(source, target_input):
        return model(input_ids=source, decoder_input_ids=target_input).logits

    return training_turn(model, settings, logits_of)
