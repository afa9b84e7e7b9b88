"""Beam search of 1,000 sentences by the same weights: ours, Hugging Face's Marian and CTranslate2."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.gpu.sitting import MeasurementError, Sitting, python_command, query_gpus
from tests.benchmarks.gpu.text import NAMES, Text

BEAM = 5
TURNS = 3
LIMIT = 180.0
OURS = "qkv"
CONTESTANTS = {
    OURS: ("decoding_qkv", (), {}),
    "CTranslate2, float16": ("decoding_ctranslate2", ("ctranslate2", "tensorflow"), {"quantization": "float16"}),
    "Hugging Face Marian, float16": ("decoding_marian", ("transformers", "torch", "tensorflow"), {"half": True}),
    "CTranslate2, float32": ("decoding_ctranslate2", ("ctranslate2", "tensorflow"), {"quantization": "float32"}),
    "Hugging Face Marian, float32": ("decoding_marian", ("transformers", "torch", "tensorflow"), {}),
}


def run_search(sitting: Sitting, text: Text, run: Path | None) -> None:
    """Stage `search`: `run` is a run with the preset's shapes; None takes the one that stage `training` has trained."""
    run = run or sitting.runs / "qkv_Multi30k_preset"
    for name in CONTESTANTS:
        sitting.measure("search", name, partial(measure_search, sitting, text, run, name))


def measure_search(sitting: Sitting, text: Text, run: Path, name: str) -> dict[str, Any]:
    """Seconds of text to text, medians, and how many translations equal ours; no length penalty, see `decoding.py`."""
    if not (run / "model.keras").is_file():
        raise MeasurementError(
            f"needs a trained run: training has not ended {run.name}; --search_run RUN names another"
        )
    module, needed, more = CONTESTANTS[name]
    on_gpu = bool(query_gpus("name"))
    if not on_gpu and "float16" in name:
        raise MeasurementError("float16 needs a GPU")
    python = sitting.peers(*needed) if needed else python_command()
    source = sitting.folder / "search.source"
    lines = (text.folder / f"{NAMES['test']}.en").read_text(encoding="utf-8").splitlines()
    source.write_text("\n".join(lines[:20] if sitting.tiny else lines) + "\n", encoding="utf-8")
    output = sitting.folder / f"search_{module}_{len(more)}{more.get('quantization', '')}.json"
    settings = {
        "run": str(run.resolve()),
        "source": str(source.resolve()),
        "beam": BEAM,
        "batch": 512 if on_gpu else 64,
        "threads": len(sitting.cores),
        "length_penalty": 0.0,
        "device": "cuda" if on_gpu else "cpu",
        "output": str(output.resolve()),
        **more,
    }
    contestant = sitting.hold(module, settings, turns=TURNS, limit=LIMIT, python=python)
    translations = json.loads(output.read_text(encoding="utf-8"))
    same = None
    if name != OURS:
        ours = json.loads(Path(sitting.figures("search", OURS)["output"]).read_text(encoding="utf-8"))
        same = sum(map(str.__eq__, ours, translations))
    seconds = contestant.median("seconds")
    return {
        "seconds": round(seconds, 3),
        "sentences": len(translations),
        "tokens_per_second": round(contestant.median("tokens") / seconds),
        "start_seconds": round(contestant.start_seconds, 1),
        "same_as_ours": same,
        "output": str(output),
    }
