"""The devices of a run: which are used, in which format they compute, and how much at once."""

import json
from dataclasses import asdict

import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.runtime import devices
from qkv.runtime.devices import (
    CPU,
    GPU,
    Gpu,
    choose_devices,
    describe_devices,
    fast_formats,
    make_strategy,
    resolve_precision,
    sizes,
    slow_precision,
    visible_gpus,
)
from tests.support.devices import pretend_gpus


def test_a_single_worker_trains_as_one_machine_does(monkeypatch):
    cluster = {"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    strategy = make_strategy()
    assert not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


@pytest.fixture
def processor(monkeypatch):
    """Sets whether the processor multiplies bfloat16; without a GPU."""
    pretend_gpus(monkeypatch)
    monkeypatch.setattr(devices, "why_unseen", lambda: None)

    def set_processor(has_bfloat16):
        monkeypatch.setattr(devices, "_cpu_multiplies_bfloat16", lambda: has_bfloat16)

    return set_processor


ISA_VARIABLES = "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"


@pytest.mark.parametrize(("flags", "expected"), [("sse avx512_bf16", True), ("amx_bf16", True), ("avx2 fma", False)])
def test_a_processor_multiplies_bfloat16_if_its_flags_say_so(flags, expected, tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor : 0\nflags\t\t: fpu {flags}\n")
    monkeypatch.setattr(devices, "Path", lambda path: file)
    for name in ISA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert devices._cpu_multiplies_bfloat16() is expected


@pytest.mark.parametrize("name", ISA_VARIABLES)
@pytest.mark.parametrize(
    ("highest", "expected"), [("AVX2", False), ("avx512_core", False), ("AVX512_CORE_BF16", True), ("ALL", True)]
)
def test_a_processor_multiplies_no_bfloat16_if_a_variable_forbids_it(name, highest, expected, tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    file.write_text("flags : fpu avx512_bf16\n")
    monkeypatch.setattr(devices, "Path", lambda path: file)
    for variable in ISA_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, highest)
    assert devices._cpu_multiplies_bfloat16() is expected


def test_auto_takes_the_format_that_the_device_multiplies(processor, monkeypatch):
    for has_bfloat16, policy in ((True, "mixed_bfloat16"), (False, "float32")):
        processor(has_bfloat16)
        assert resolve_precision("auto") == policy
    for capability, policy in (((8, 9), "mixed_bfloat16"), ((7, 5), "mixed_float16"), ((6, 0), "float32")):
        pretend_gpus(monkeypatch, capability)
        assert resolve_precision("auto") == policy


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_precision_that_is_named_is_taken_and_said_to_be_slow_where_it_is(precision, processor, monkeypatch):
    def is_slow():
        assert resolve_precision(precision) == precision
        return slow_precision(precision) is not None

    processor(False)
    assert is_slow() == (precision != "float32")
    processor(True)
    assert is_slow() == (precision == "mixed_float16")
    pretend_gpus(monkeypatch, (7, 5))
    assert is_slow() == (precision == "mixed_bfloat16")
    pretend_gpus(monkeypatch, (8, 0))
    assert not is_slow()


def test_one_line_says_what_is_computed_on(processor, monkeypatch):
    processor(False)
    monkeypatch.setattr(devices, "usable_cores", lambda: 2)
    assert describe_devices("float32") == "computing on the processor, 2 cores, in float32"
    monkeypatch.setattr(devices, "why_unseen", lambda: "CUDA's libraries are missing")
    assert describe_devices("float32").endswith(
        "in float32. The machine has an NVIDIA GPU, but CUDA's libraries are missing"
    )
    pretend_gpus(monkeypatch, (7, 5), name="Tesla T4")
    line = "computing on a GPU (Tesla T4, compute capability 7.5) in mixed_float16"
    assert describe_devices("mixed_float16") == line
    visible = pretend_gpus(monkeypatch, (8, 0), (8, 0), name="A100")
    assert "on 2 GPUs (A100, compute capability 8.0; A100, compute capability 8.0) in" in describe_devices("float32")
    visible.clear()  # as by --run.devices 0, and no GPU is missed then
    assert describe_devices("float32") == "computing on the processor, 2 cores, in float32"


def test_determinism_is_tensorflows(monkeypatch):
    asked = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: asked.append(True))
    choose_devices(None, deterministic=False)
    assert asked == []
    choose_devices(None, deterministic=True)
    assert asked == [True]


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
    assert fast_formats() == formats


def test_gpus_are_named_with_their_capability(monkeypatch):
    pretend_gpus(monkeypatch, (7, 5), None, name="Tesla T4")
    assert visible_gpus() == [Gpu("Tesla T4", (7, 5)), Gpu("/physical_device:GPU:1", None)]
    assert str(visible_gpus()[0]) == "Tesla T4, compute capability 7.5"
    assert str(visible_gpus()[1]) == "/physical_device:GPU:1"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_first_gpus_are_used(number, monkeypatch):
    visible = pretend_gpus(monkeypatch, (8, 0), (8, 0))
    choose_devices(number, deterministic=False)
    assert [gpu.name for gpu in visible] == [f"/physical_device:GPU:{i}" for i in range(number)]
    assert len(visible_gpus()) == number


def test_more_gpus_than_there_are_are_refused(monkeypatch):
    pretend_gpus(monkeypatch, (8, 0), (8, 0))
    with pytest.raises(
        InputError, match=r"run\.devices: expected at most 2, the number of GPUs that TensorFlow sees, found 3$"
    ):
        choose_devices(3, deterministic=False)


def test_a_gpu_that_tensorflow_does_not_see_is_no_number_but_a_hint(monkeypatch):
    pretend_gpus(monkeypatch)
    monkeypatch.setattr(devices, "why_unseen", lambda: "CUDA's libraries are missing: install them")
    with pytest.raises(
        InputError, match=r"at most 0, .* found 1; the machine has an NVIDIA GPU, but CUDA's libraries are miss"
    ):
        choose_devices(1, deterministic=False)
    choose_devices(0, deterministic=False)


def test_gpus_that_are_in_use_cannot_be_chosen_any_more(monkeypatch):
    pretend_gpus(monkeypatch, (8, 0), (8, 0))

    def refuse(devices, kind):
        raise RuntimeError("Physical devices cannot be modified after being initialized")

    monkeypatch.setattr("tensorflow.config.set_visible_devices", refuse)
    with pytest.raises(
        InputError, match=r"the 2 GPUs already, so 1 of them cannot be chosen any more.*start another process"
    ):
        choose_devices(1, deterministic=False)
    choose_devices(2, deterministic=False)  # all of them: nothing is to be chosen


def test_a_processors_sizes_stay_as_runs_were_made_with_them():
    assert sizes() is CPU
    assert asdict(CPU) == {
        "update_slices": 2,
        "loss_chunk_tokens": 1024,
        "divergence_chunk_tokens": 512,
        "matrix_groups": 2,
        "search_sentences": 64,
        "most_batches": 4,
    }


def test_a_gpu_computes_more_at_once_and_nothing_side_by_side(monkeypatch):
    visible = pretend_gpus(monkeypatch, (8, 0))
    assert sizes() is GPU
    assert devices.slices_per_update() == devices.parallel_batches() == GPU.matrix_groups == 1
    for name in ("loss_chunk_tokens", "divergence_chunk_tokens", "search_sentences"):
        assert getattr(GPU, name) > getattr(CPU, name)
    visible.clear()  # as by --run.devices 0
    assert sizes() is CPU
