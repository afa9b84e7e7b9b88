"""The machine in the doctor's report: its GPUs, and what is slower than it could be."""

import pytest
import tensorflow as tf

from qkv.run import doctor
from qkv.run.doctor import describe_gpus, describe_machine, describe_memory
from qkv.runtime import devices
from tests.support.devices import pretend_gpus


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, of which one has used nearly all of its memory."""
    pretend_gpus(monkeypatch, (7, 5), (8, 0), name="Tesla T4")
    monkeypatch.setattr(doctor, "gpu_memory", lambda: [15 << 30, 40 << 30])
    peaks = {"GPU:0": {"peak": 14 << 30}, "GPU:1": {"peak": 1 << 30}}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", peaks.__getitem__)


def texts(lines):
    return [("" if line.fine else "LOOK: ") + line.text for line in lines]


def test_each_gpu_is_described_with_its_memory_and_capability(gpus):
    assert texts(describe_gpus("float32")) == [
        "number 0: Tesla T4, compute capability 7.5, 15.0 GiB of memory for TensorFlow",
        "number 1: Tesla T4, compute capability 8.0, 40.0 GiB of memory for TensorFlow",
    ]
    assert [line.subject for line in describe_gpus("float32")] == ["gpu", "gpu"]


def test_the_memory_of_each_gpu_is_judged(gpus):
    first, second, host = texts(describe_memory())
    assert first == "LOOK: of GPU 0, 14.0 GiB with the largest batch, of 15"
    assert second == "of GPU 1, 1.0 GiB with the largest batch, of 40"
    assert "with the largest batch" in host


def test_gpus_are_counted(gpus, monkeypatch):
    monkeypatch.setattr(doctor, "product_rate", lambda dtype: 1e12)
    assert "2 GPUs" in describe_machine().text


def test_a_gpu_that_lies_idle_and_a_format_that_is_converted_need_a_look(monkeypatch):
    pretend_gpus(monkeypatch)
    monkeypatch.setattr(devices, "why_unseen", lambda: "install it")
    monkeypatch.setattr(devices, "_cpu_multiplies_bfloat16", lambda: False)
    idle, slow = texts(describe_gpus("mixed_float16"))
    assert idle == "LOOK: TensorFlow does not see the NVIDIA GPU of this machine: install it"
    assert slow.startswith("LOOK: training.precision mixed_float16: this device converts every number")
    monkeypatch.setattr(devices, "why_unseen", lambda: None)
    assert texts(describe_gpus("float32")) == []
