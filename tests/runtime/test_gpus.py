"""GPUs: which are used, and the formats that they multiply. None is there: they are pretended."""

import pytest

from pipeline.errors import InputError
from pipeline.runtime import gpus
from pipeline.runtime.gpus import Gpu, gpu_formats, use_gpus, visible_gpus
from tests.pretended_gpus import pretend_gpus


@pytest.mark.parametrize(
    ("capabilities", "formats"),
    [
        ([(6, 1)], []),  # P40
        ([(7, 0)], ["mixed_float16"]),  # V100
        ([(7, 5)], ["mixed_float16"]),  # T4
        ([(8, 0)], ["mixed_bfloat16", "mixed_float16"]),  # A100
        ([(12, 0)], ["mixed_bfloat16", "mixed_float16"]),
        ([(8, 6), (9, 0)], ["mixed_bfloat16"]),
        ([(9, 0), (7, 5)], []),  # float16 is for one
        ([None], []),  # another maker's
    ],
)
def test_formats_are_those_that_all_gpus_multiply(capabilities, formats, monkeypatch):
    pretend_gpus(monkeypatch, *capabilities)
    assert gpu_formats() == formats


def test_gpus_are_named_with_their_capability(monkeypatch):
    pretend_gpus(monkeypatch, (7, 5), None, name="Tesla T4")
    assert visible_gpus() == [Gpu("Tesla T4", (7, 5)), Gpu("/physical_device:GPU:1", None)]
    assert str(visible_gpus()[0]) == "Tesla T4, compute capability 7.5"
    assert str(visible_gpus()[1]) == "/physical_device:GPU:1"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_first_gpus_are_used(number, monkeypatch):
    visible = pretend_gpus(monkeypatch, (8, 0), (8, 0))
    use_gpus(number)
    assert [gpu.name for gpu in visible] == [f"/physical_device:GPU:{i}" for i in range(number)]
    assert len(visible_gpus()) == number


def test_more_gpus_than_there_are_are_refused(monkeypatch):
    pretend_gpus(monkeypatch, (8, 0), (8, 0))
    with pytest.raises(
        InputError, match=r"run\.devices: expected at most 2, as many GPUs as TensorFlow sees, found 3$"
    ):
        use_gpus(3)


def test_a_gpu_that_tensorflow_does_not_see_is_no_number_but_a_hint(monkeypatch):
    pretend_gpus(monkeypatch)
    monkeypatch.setattr(gpus, "why_unseen", lambda: "CUDA's libraries are missing: install them")
    with pytest.raises(
        InputError, match=r"at most 0, .* found 1; an NVIDIA GPU is there, but CUDA's libraries are miss"
    ):
        use_gpus(1)
    use_gpus(0)


def test_gpus_that_are_in_use_cannot_be_chosen_any_more(monkeypatch):
    pretend_gpus(monkeypatch, (8, 0), (8, 0))

    def refuse(devices, kind):
        raise RuntimeError("Physical devices cannot be modified after being initialized")

    monkeypatch.setattr("tensorflow.config.set_visible_devices", refuse)
    with pytest.raises(InputError, match=r"1 of 2 GPUs cannot be chosen any more.*start another process"):
        use_gpus(1)
    use_gpus(2)  # all of them: nothing is to be chosen
