import pytest

from tests.support.tiny_models import shared_transformer


@pytest.fixture(scope="session")
def transformer(tokenizer):
    """A random model for the tokenizer's ids, for sentences of up to 24 tokens."""
    return shared_transformer(vocabulary_size=tokenizer.vocabulary_size, max_positions=24)
