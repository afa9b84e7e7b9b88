"""Runs with random weights, which no training made: what is converted need not be able to translate."""

from dataclasses import replace

import numpy as np

from qkv.config import RunConfig
from qkv.files.run_directory import RunDirectory
from qkv.model.build import build_model
from qkv.run.trained_run import TrainedRun
from tests.support.tiny_runs import small_config

RANDOM_SIZES = {
    "d_model": 12,
    "num_heads": 3,
    "d_ff": 20,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "max_positions": 64,
    "positions_on": "input",
}


def random_run(tokenizer, folder, section=None, **settings) -> TrainedRun:
    """A run whose weights, biases and norms are all random, of a small Transformer or of a whole `model` section."""
    sizes = {f"model.{key}": value for key, value in (RANDOM_SIZES | settings).items()}
    changes = sizes if section is None else {"model": section}
    config = small_config(folder, folder, "random", changes)
    model = build_model(config.model, tokenizer.vocabulary_size)
    generator = np.random.default_rng(1)
    for variable in model.trainable_variables:
        mean = 1.0 if variable.name == "gamma" else 0.0
        variable.assign(generator.normal(mean, 0.3, variable.shape))
    run = RunDirectory(folder / "random")
    return TrainedRun(run, config, tokenizer, model, run.model)


def rounded_run(tokenizer, folder, decoding=None, **settings):
    """A run of random weights that 16-bit floats hold exactly."""
    run = random_run(tokenizer, folder, **settings)
    for variable in run.model.trainable_variables:
        variable.assign(variable.numpy().astype("float16").astype("float32"))
    values = run.config.model_dump()
    values["decoding"] |= {"max_target_ratio": 2.0, "max_target_extra": 5} | (decoding or {})
    return replace(run, config=RunConfig.model_validate(values))
