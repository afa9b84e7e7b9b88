"""Every config in `configs/` describes a model that can be built."""

from pathlib import Path

import pytest

from pipeline.config import load_run_config
from pipeline.model.build import build_model

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_builds_its_model(path):
    config = load_run_config(path)
    model = build_model(config.model, config.tokenizer.vocabulary_size)
    assert model.count_params() > config.tokenizer.vocabulary_size * model.output_embedding.width
