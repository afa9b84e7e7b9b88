"""Where XLA compiles the update: on a single GPU, if batches can be packed; and the kind of batches is kept."""

from types import SimpleNamespace

import pytest

from qkv.errors import InputError
from qkv.training import build
from qkv.training.build import resolve_xla
from qkv.training.progress import Progress
from tests.support.tiny_runs import parsed


@pytest.fixture
def resolved(config_file, monkeypatch, caplog):
    """Returns the choice and what is said, for settings, a number of GPUs and the progress of a run."""

    def resolve(options="", gpus=1, progress=None):
        monkeypatch.setattr(build, "visible_gpus", lambda: [None] * gpus)
        strategy = SimpleNamespace(num_replicas_in_sync=max(gpus, 1))
        caplog.clear()
        with caplog.at_level("INFO"):
            xla = resolve_xla(parsed(config_file, *options.split()), strategy, progress or Progress())
        return xla, caplog.text

    return resolve


@pytest.mark.parametrize(
    ("options", "gpus", "xla", "reason"),
    [
        ("", 1, True, "there is a single GPU"),
        ("--model.architecture decoder_only", 1, True, "there is a single GPU"),
        ("", 0, False, None),  # nothing is said on a processor
        ("", 2, False, "there are 2 GPUs"),
        ("--batches.packed false", 1, False, "batches.packed is false"),
        ("--model.architecture recurrent", 1, False, "model.architecture recurrent cannot be trained on packed"),
        (
            "--model.attention.encoder_self.mechanism linformer",
            1,
            False,
            "model.attention.encoder_self.mechanism linformer cannot be trained on packed",
        ),
    ],
)
def test_auto_is_on_for_a_single_gpu_and_a_model_that_can_be_packed(options, gpus, xla, reason, resolved):
    progress = Progress()
    choice, said = resolved(options, gpus, progress)
    assert choice is xla and progress.packed is xla
    assert (f"training.xla auto: {str(xla).lower()}, since {reason}" in said) if reason else "xla" not in said


def test_a_run_keeps_its_batches_on_another_device(resolved):
    begun_on_processor, begun_on_gpu = (Progress(update=3, packed=packed) for packed in (False, True))
    assert resolved(gpus=1, progress=begun_on_processor)[0] is False
    assert "since the run began with batches that are not packed" in resolved(progress=begun_on_processor)[1]
    assert resolved(gpus=0, progress=begun_on_gpu)[0] is False
    assert resolved(gpus=1, progress=begun_on_gpu)[0] is True
    assert (begun_on_processor.packed, begun_on_gpu.packed) == (False, True)


def test_a_run_of_a_version_without_packed_batches_goes_on_without_them(resolved):
    old = Progress(update=3)
    assert resolved(progress=old)[0] is False and not old.packed
    with pytest.raises(InputError, match=r"training\.xla: XLA compiles .* this run began with others; expected auto"):
        resolved("--training.xla true", progress=old)


def test_a_choice_of_the_user_is_taken_and_not_explained(resolved):
    for options, packed in (("--training.xla true", True), ("--training.xla false --batches.packed true", True)):
        progress = Progress()
        choice, said = resolved(options, 0, progress)
        assert choice is ("xla true" in options) and progress.packed is packed and said == ""
