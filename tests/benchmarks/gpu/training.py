"""Training on real text: ours by `train.py`, as anybody starts it, and the others with the ids of our tokenizer."""

import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.benchmarks.gpu.sitting import MeasurementError, Sitting, options, python_command, query_gpus
from tests.benchmarks.gpu.text import Text, flops_per_token

WINDOWS = 3  # whose median is reported, after one that is not counted
TURN_SECONDS = 2.0  # of a window and of the others' turns, about
LIMIT = 150.0  # seconds of a training or a contestant
UPDATE = re.compile(r"^update +([\d,]+) .*?(?:([\d,]+) tokens/s.*)?$")
PADDING = re.compile(r"([\d.]+) % of their positions are padding")
COMPILED = re.compile(r"XLA has prepared .* in ([\d,.]+) s")
NEVER = 10_000_000  # updates
AGAIN = ("base, 16,384 tokens", "demo")  # are started a second time
WITHOUT_XLA = {"training.xla": False}


class Size(NamedTuple):
    """A training that is measured.

    - config: its config.
    - overrides: of the config's settings.
    - updates: of a window on an H200.
    - aim: the target tokens a second that are wanted; None where a share or a comparison is.
    - total: the updates after which the training ends by itself and its run is kept; None for a training that is ended
      once its windows are enough.
    """

    config: str
    overrides: Mapping[str, Any]
    updates: int
    aim: int | None = None
    total: int | None = None


def sizes(sitting: Sitting, text: Text) -> dict[str, Size]:
    """Returns the trainings by the names of the table."""
    base = {
        **text.settings("train_copies"),
        "data.tokenized": True,
        "tokenizer.vocabulary_size": 8000,
        "training.label_smoothing": 0.1,
    }
    found = {
        "base, 16,384 tokens": Size("configs/base_en_de.yaml", {**base, "batches.batch_tokens": 16_384}, 100),
        "base, 65,536 tokens": Size("configs/base_en_de.yaml", {**base, "batches.batch_tokens": 65_536}, 30),
        "Multi30k preset": Size("configs/multi30k_en_de_small.yaml", text.settings(), 400, 300_000, 6000),
        "demo": Size(
            "configs/demo.yaml", {"training.max_minutes": None, "inspection.probe_updates": []}, 1000, 500_000
        ),
    }
    if sitting.tiny:
        tiny = {
            "tokenizer.vocabulary_size": 300,
            "batches.batch_tokens": 512,
            "training.warmup_updates": 5,
            "model.d_model": 16,
            "model.num_heads": 2,
            "model.d_ff": 32,
            "model.encoder_layers": 1,
            "model.decoder_layers": 1,
            "training.precision": "float32",
            "training.max_minutes": None,
        }
        demo = {f"data.{part}.{side}": f"data/demo/{part}.{end}" for part in ("train", "validation", "test")
                for side, end in (("source", "en"), ("target", "fr"))}  # fmt: skip
        found = {
            name: size._replace(overrides={**size.overrides, **demo, **tiny}, updates=3, total=size.total and 30)
            for name, size in found.items()
        }
    return found


class Trained(NamedTuple):
    """What is read from the lines of a training.

    - rates: target tokens a second of each window.
    - padding: the share of the positions that are padding.
    - first_update: the seconds from the start to the end of the first update.
    - start: the seconds from the start to the line before training.
    - compiling: the seconds in which XLA compiled the update or read it from the cache; None without XLA.
    - facts: the lines about device and XLA.
    """

    rates: list[float]
    padding: float | None
    first_update: float
    start: float
    compiling: float | None
    facts: list[str]


def read_training(lines, enough: Callable[[list[float]], bool], at_first: Callable[[], None]) -> Trained:
    """Reads a training's lines until its windows are enough.

    The first update ends before the first line of a window of several updates: the time of the others is subtracted.

    Args:
        lines: the seconds since the start with each line.
        enough: takes the rates so far.
        at_first: is called at the first line of an update.
    """
    rates: list[float] = []
    marks: list[tuple[float, int]] = []
    share, start, compiling, facts = None, 0.0, None, []
    for seconds, line in lines:
        if found := PADDING.search(line):
            share, start = float(found[1]) / 100, seconds
        if found := COMPILED.search(line):
            compiling = float(found[1].replace(",", ""))
        if not marks and re.search(r"computing on|xla|XLA|packed", line):
            facts.append(line.strip())
        if (found := UPDATE.match(line)) and "validation" not in line:
            marks.append((seconds, int(found[1].replace(",", ""))))
            if len(marks) == 1:
                at_first()
            if found[2]:
                rates.append(float(found[2].replace(",", "")))
            if enough(rates):
                break
    if not marks:
        raise MeasurementError("there was no update")
    first, number = marks[0]
    paces = [(end - begin) / (last - before) for (begin, before), (end, last) in pairwise(marks) if last > before]
    return Trained(rates, share, first - (number - 1) * min(paces, default=0.0), start, compiling, facts)


def train_ours(
    sitting: Sitting, name: str, size: Size, more: Mapping[str, Any], windows: int | None = None
) -> tuple[Trained, Path]:
    """Trains until there are enough windows, and ends the process, or to the end if the size has a total.

    Returns what was read, and the folder of the encoded text.
    """
    if windows is None:
        windows = 1 if sitting.tiny else WINDOWS
    total = size.total if windows else None
    run = re.sub(r"\W+", "_", name)
    shutil.rmtree(sitting.runs / run, ignore_errors=True)
    encoded = sitting.folder / "encoded" / run
    settings = {
        "run.directory": str(sitting.runs),
        "run.name": run,
        **size.overrides,
        "training.max_updates": total or NEVER,
        "training.validate_every_updates": total or NEVER,
        "training.log_every_updates": updates_of_a_window(sitting, size),
        **more,
    }
    process = sitting.start(run, python_command("train.py", "--config", size.config, *options(settings)), LIMIT)

    def keep_text() -> None:
        shutil.copytree(sitting.runs / run / "encoded", encoded, dirs_exist_ok=True)

    try:
        trained = read_training(process.lines(), lambda rates: total is None and len(rates) > windows, keep_text)
    except MeasurementError:
        process.check()
        raise
    finally:
        process.kill()
    if total is None:
        shutil.rmtree(sitting.runs / run, ignore_errors=True)
    return trained, encoded


def updates_of_a_window(sitting: Sitting, size: Size) -> int:
    """Returns fewer updates for a card that is slower than an H200 where its products take the time."""
    rate = sitting.results.get("products", {}).get("bfloat16", {}).get("flops_per_second", 7e14)
    share = min(rate / 7e14, 1.0) if "base" in size.config and not sitting.tiny else 1.0
    return max(round(size.updates * share), 3)


def compiled(sitting: Sitting) -> dict[str, Any]:
    """Returns the settings of the fast way: the defaults, or on a processor what they are on a GPU."""
    on_processor = {"training.xla": True, "batches.packed": True, "training.updates_per_call": 2}
    return on_processor if sitting.tiny else {"training.xla": "auto"}


def measure_products(sitting: Sitting) -> dict[str, Any]:
    """The rate of large products in the format of training: what the card could do."""
    capability = query_gpus("compute_cap")
    precision = "float16" if capability and float(capability[0][0]) < 8 else "bfloat16"
    settings = {"precision": precision, **({"size": 256} if sitting.tiny else {"size": 4096, "times": 200})}
    contestant = sitting.hold("products", settings, turns=3, limit=90, python=python_command())
    return {
        "format": precision,
        "flops_per_second": contestant.median("flops") / contestant.median("seconds"),
        "settings": settings,
    }


def measure_ours(sitting: Sitting, name: str, size: Size, more: Mapping[str, Any]) -> dict[str, Any]:
    """Ours: target tokens a second, the share of the product rate, padding, and the first update."""
    trained, encoded = train_ours(sitting, name, size, more)
    counted = trained.rates[1:] or trained.rates
    if not counted:
        raise MeasurementError(f"no window ended; the first update took {trained.first_update:.0f} s")
    return {
        "tokens_per_second": median(counted),
        "windows": trained.rates,
        "padding": trained.padding,
        "first_update_seconds": round(trained.first_update, 1),
        "start_seconds": round(trained.start, 1),
        "compiling_seconds": trained.compiling,
        "aim": size.aim,
        "facts": trained.facts,
        **_share(sitting, encoded, size, median(counted)),
        "encoded": str(encoded),
    }


def measure_peer(
    sitting: Sitting, module: str, name: str, ours: str, size: Size, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Another program on the same ids: the median of three turns."""
    encoded = Path(sitting.figures("training", ours)["encoded"])
    python = sitting.peers("torch" if "torch" in module else "jax")
    settings = {
        **contestant_settings(size),
        "text": str(encoded),
        "pairs": 300 if sitting.tiny else 29_000,
        "threads": len(sitting.cores),
        "turn_seconds": 0.1 if sitting.tiny else TURN_SECONDS,
        **more,
    }
    contestant = sitting.hold(module, settings, turns=WINDOWS, limit=LIMIT, python=python)
    rates = [turn["tokens"] / turn["seconds"] for turn in contestant.turns]
    return {
        "tokens_per_second": median(rates),
        "windows": [round(rate) for rate in rates],
        "padding": contestant.median("padding"),
        "first_update_seconds": None,
        "start_seconds": round(contestant.start_seconds, 1),
        **_share(sitting, encoded, size, median(rates)),
    }


def contestant_settings(size: Size) -> dict[str, Any]:
    """Returns the sizes of the base model as contestants name them."""
    given = size.overrides
    return {
        "width": given.get("model.d_model", 512),
        "heads": given.get("model.num_heads", 8),
        "hidden": given.get("model.d_ff", 2048),
        "layers": given.get("model.encoder_layers", 6),
        "vocabulary": given.get("tokenizer.vocabulary_size", 8000),
        "batch_tokens": given["batches.batch_tokens"],
        "dropout": 0.1,
    }


def _share(sitting: Sitting, encoded: Path, size: Size, rate: float) -> dict[str, Any]:
    """Returns the share of the product rate, for the base size, whose updates are products."""
    if "base" not in size.config:
        return {}
    wanted = contestant_settings(size)
    model = {**wanted, "encoder_layers": wanted["layers"], "decoder_layers": wanted["layers"]}
    flops = flops_per_token(encoded, model)
    products = sitting.results.get("products", {}).get("bfloat16", {}).get("flops_per_second")
    return {"flops_per_token": flops, "share_of_products": products and rate * flops / products}


def run_products(sitting: Sitting, text: Text) -> None:
    """Stage `products`."""
    sitting.measure("products", "bfloat16", lambda: measure_products(sitting))


def run_training(sitting: Sitting, text: Text) -> None:
    """Stage `training`: ours by its defaults at each size, and compiled PyTorch beside it."""
    for name, size in sizes(sitting, text).items():
        ours = f"qkv, {name}"
        sitting.measure("training", ours, partial(measure_ours, sitting, ours, size, compiled(sitting)))
        if "base" in size.config:
            _run_peer(sitting, "training", "text_torch", "PyTorch, compiled, packed", name, size, rows="packed")


def run_first_update(sitting: Sitting, text: Text) -> None:
    """Stage `first_update`: again in a second process, which finds compiled programs in the cache."""
    for name in AGAIN:
        size = sizes(sitting, text)[name]
        cold = f"qkv, {name}"

        def again(name=cold, size=size) -> dict[str, Any]:
            before = sitting.figures("training", name)["first_update_seconds"]
            trained, _ = train_ours(sitting, f"{name}, again", size, compiled(sitting), windows=0)
            megabytes = sum(path.stat().st_size for path in sitting.programs.rglob("*") if path.is_file()) / 1e6
            return {
                "cold_seconds": before,
                "with_cache_seconds": round(trained.first_update, 1),
                "reading_seconds": trained.compiling,
                "cache_megabytes": round(megabytes, 1),
            }

        sitting.measure("first_update", name, again)


def run_peers(sitting: Sitting, text: Text) -> None:
    """Stage `peers`: what is known to be slower, for the table."""
    for name, size in sizes(sitting, text).items():
        graph = f"qkv without XLA, {name}"
        if "preset" not in name:
            sitting.measure("peers", graph, partial(measure_ours, sitting, graph, size, WITHOUT_XLA))
        if name == "demo":
            single = f"qkv, one update a call, {name}"
            more = {**compiled(sitting), "training.updates_per_call": 1}
            sitting.measure("peers", single, partial(measure_ours, sitting, single, size, more))
        if "base" in size.config:
            _run_peer(sitting, "peers", "text_jax", "JAX, packed", name, size)
            _run_peer(sitting, "peers", "text_torch", "PyTorch, eager, padded", name, size, compiled=False)
            _run_peer(sitting, "peers", "text_torch", "PyTorch, compiled, padded", name, size)


def _run_peer(sitting, stage, module, title, name, size, *, rows="padded", compiled=True) -> None:
    backend = "eager" if sitting.tiny else "inductor"  # the first traces only: compiling takes minutes on a processor
    more = {"rows": rows, "compiled": backend if compiled else ""}
    sitting.measure(
        stage, f"{title}, {name}", lambda: measure_peer(sitting, module, f"{title}, {name}", f"qkv, {name}", size, more)
    )


def run_several_gpus(sitting: Sitting, text: Text) -> None:
    """Stage `several_gpus`: all GPUs beside one, if there are several."""
    count = len(query_gpus("name"))
    size = sizes(sitting, text)["base, 65,536 tokens"]
    for devices in (1, count):
        if count < 2:
            name = f"{count} visible"
            sitting.measure("several_gpus", name, lambda: _refuse("there are not several GPUs"))
            return
        name = f"qkv, base, 65,536 tokens, {devices} GPUs"
        more = {"run.devices": devices, **WITHOUT_XLA}
        sitting.measure("several_gpus", name, partial(measure_ours, sitting, name, size, more))


def _refuse(why: str):
    raise MeasurementError(why)
