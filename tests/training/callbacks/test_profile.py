"""The profiler watches as many updates as it is asked to, and stops when training does."""

import pytest
import tensorflow as tf

from qkv.training.callbacks.profile import WARM_UP, Profile

pytestmark = pytest.mark.minutes


def profiled(folder):
    return list(folder.glob("plugins/profile/*/*.xplane.pb"))


def train(profile, updates):
    for update in range(updates):
        profile.on_train_batch_begin(update)
        tf.reduce_sum(tf.ones((4, 4)))


def test_a_profile_is_written_after_its_updates_and_only_once(tmp_path):
    profile = Profile(tmp_path, 2)
    train(profile, WARM_UP + 2)
    assert profile.running and not profiled(tmp_path)
    profile.on_train_batch_begin(WARM_UP + 2)
    assert not profile.running and len(profiled(tmp_path)) == 1
    train(profile, 30)
    profile.on_train_end()
    assert len(profiled(tmp_path)) == 1


def test_a_training_that_ends_early_is_profiled_up_to_there(tmp_path):
    profile = Profile(tmp_path, 99)
    train(profile, WARM_UP + 3)
    profile.on_train_end()
    assert len(profiled(tmp_path)) == 1
    Profile(tmp_path / "short", 5).on_train_end()
    assert not profiled(tmp_path / "short")
