"""Parts of the settings of training: each has the arguments of one constructor, so that a new one is written twice."""

import inspect

import pytest

from qkv.config.training import (
    EarlyStoppingSettings,
    GuidedAttentionSettings,
    LimitSettings,
    LossSettings,
    OptimizerSettings,
    PaceSettings,
    StepSettings,
    TrainingSettings,
)
from qkv.training.loop import Training
from qkv.training.loss import GuidedAttention, TotalLoss
from qkv.training.optimizers import make_optimizer
from qkv.training.step import TrainStep
from qkv.training.stopping import Limits, StoppingRules


@pytest.mark.parametrize(
    ("part", "constructor", "no_settings"),
    [
        (OptimizerSettings, make_optimizer, "schedule"),
        (LossSettings, TotalLoss, "model"),
        (StepSettings, TrainStep, "loss optimizer strategy signature slices"),
        (LimitSettings, Limits, "measured ends_at_zero"),
        (PaceSettings, Training, "step batches validate checkpoints stopping workers time_budget"),
        (EarlyStoppingSettings, StoppingRules, "limits votes"),
        (GuidedAttentionSettings, GuidedAttention, ""),
    ],
)
def test_a_part_has_the_arguments_of_its_constructor(part, constructor, no_settings):
    assert set(part.model_fields) == set(inspect.signature(constructor).parameters) - set(no_settings.split())


def test_the_keys_of_parts_are_keys_of_training():
    training = TrainingSettings(max_updates=3, clip_norm=2.0)
    assert training.part(StepSettings) == {"clip_norm": 2.0, "xla": "auto"}
    assert training.part(LimitSettings) == {"max_updates": 3, "max_epochs": None, "max_minutes": None}
