"""Sizes by device: a processor's are those that runs have always had, a GPU's are larger."""

from dataclasses import asdict

from pipeline.runtime import devices
from pipeline.runtime.sizes import CPU, GPU, sizes
from tests.pretended_gpus import pretend_gpus


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
    visible.clear()  # as by --devices 0
    assert sizes() is CPU
