import pytest

from tests.support.tiny_models import shared_transformer


@pytest.fixture(scope="session")
def transformer(tokenizer):
    """A random model of one layer a side for the tokenizer's ids, for sentences of up to 24 tokens."""
    sizes = {"vocabulary_size": tokenizer.vocabulary_size, "encoder_layers": 1, "decoder_layers": 1}
    return shared_transformer(max_positions=24, **sizes)
