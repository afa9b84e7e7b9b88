"""The page of results, with what is wanted beside what was measured."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.benchmarks.contest import table

Figures = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a stage's table.

    - key: of the figures.
    - heading: in the table.
    - form: of a value, for `format`; a function takes the value.
    """

    key: str
    heading: str
    form: str | Callable[[Any], str] = "{}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


RATE = Column("tokens_per_second", "target tokens/s", "{:,.0f}")
TRAINING = (
    RATE,
    Column("share_of_products", "of the product rate", _percent),
    Column("padding", "padding", _percent),
    Column("first_update_seconds", "first update, s"),
    Column("start_seconds", "start, s"),
    Column("compiling_seconds", "XLA, s"),
)
COLUMNS = {
    "products": (
        Column("flops_per_second", "TFLOP/s", lambda value: f"{value / 1e12:.1f}"),
        Column("format", "format"),
    ),
    "training": TRAINING,
    "first_update": (
        Column("cold_seconds", "cold, s"),
        Column("with_cache_seconds", "with the cache, s"),
        Column("reading_seconds", "of which XLA, s"),
        Column("cache_megabytes", "cache so far, MB"),
    ),
    "demo": (
        Column("training_seconds", "training, s"),
        Column("evaluation_seconds", "evaluation, s"),
        Column("bleu", "BLEU", "{:.2f}"),
        Column("aer", "AER, %", "{:.2f}"),
    ),
    "archive": (
        Column("largest_difference", "largest difference", "{:.1e}"),
        Column("gpu_seconds", "GPU, s"),
        Column("processor_seconds", "processor, s"),
        Column("archive_megabytes", "MB"),
    ),
    "search": (
        Column("seconds", "seconds", "{:.2f}"),
        Column("sentences", "sentences"),
        RATE,
        Column("start_seconds", "start, s"),
        Column("same_as_ours", "same as ours"),
    ),
    "memory": (
        Column("batch_tokens", "found, tokens", "{:,}"),
        Column("free_megabytes", "free, MB", "{:,}"),
        Column("used_megabytes", "used, MB", "{:,}"),
        Column("trial_seconds", "trials, s"),
        Column("batches_cut", "a batch was cut"),
    ),
    "peers": TRAINING,
    "several_gpus": TRAINING,
}
SIZES = ("base, 16,384 tokens", "base, 65,536 tokens")
LIMITS = {"cold_seconds": 60.0, "with_cache_seconds": 20.0}
SHARE, DIFFERENCE = 0.4, 1e-5


def write_page(results: Mapping[str, Any], facts: Mapping[str, str]) -> str:
    """Returns the page in Markdown: what is wanted, then a table for each stage."""
    parts = [f"# A GPU measured\n\n{'; '.join(f'{name}: {value}' for name, value in facts.items())}"]
    rows = [
        [wanted, measured, "" if met is None else "yes" if met else "no"] for wanted, measured, met in judge(results)
    ]
    parts.append(f"## What was wanted\n\n{table(['', 'measured', 'met'], rows)}")
    for stage, columns in COLUMNS.items():
        if stage in results:
            parts.append(f"## {stage.replace('_', ' ').capitalize()}\n\n{_stage_table(columns, results[stage])}")
    return "\n\n".join(parts) + "\n"


def _stage_table(columns: tuple[Column, ...], measurements: Mapping[str, Figures]) -> str:
    rows, missing = [], []
    for name, figures in measurements.items():
        if "missing" in figures:
            missing.append(f"- {name}: {figures['missing']}")
        else:
            rows.append([name, *(_cell(column, figures.get(column.key)) for column in columns)])
    text = table(["", *(column.heading for column in columns)], rows) if rows else ""
    return "\n\n".join(filter(None, [text, "\n".join(missing)]))


def _cell(column: Column, value: Any) -> str:
    if value is None:
        return ""
    return column.form(value) if callable(column.form) else column.form.format(value)


def judge(results: Mapping[str, Any]) -> list[tuple[str, str, bool | None]]:
    """Returns `(wanted, measured, met)` for each figure that the issue names; `met` is None if it was not measured."""

    def find(stage: str, name: str, key: str) -> Any:
        return results.get(stage, {}).get(name, {}).get(key)

    judged: list[tuple[str, str, bool | None]] = []

    def add(wanted: str, form: Callable[[Any], str], value: Any, met: Callable[[], bool]) -> None:
        judged.append((wanted, "not measured", None) if value is None else (wanted, form(value), met()))

    for size in SIZES:
        ours = find("training", f"qkv, {size}", "tokens_per_second")
        rates = [
            figures.get("tokens_per_second")
            for stage in ("training", "peers")
            for name, figures in results.get(stage, {}).items()
            if name.startswith("PyTorch, compiled") and name.endswith(size)
        ]
        best = max((rate for rate in rates if rate), default=None)
        value = None if ours is None or best is None else ours / best
        add(f"{size}: at least compiled PyTorch's rate", "{:.2f} times".format, value, lambda v=value: v >= 1)
    share = find("training", f"qkv, {SIZES[1]}", "share_of_products")
    add(f"{SIZES[1]}: {100 * SHARE:.0f} % of the product rate", _percent, share, lambda: share >= SHARE)
    for name, figures in results.get("training", {}).items():
        if aim := figures.get("aim"):
            rate = figures["tokens_per_second"]
            add(f"{name}: {aim:,} target tokens/s", "{:,.0f}".format, rate, lambda r=rate, a=aim: r >= a)
    for key, limit in LIMITS.items():
        seconds = [figures[key] for figures in results.get("first_update", {}).values() if figures.get(key) is not None]
        most = max(seconds, default=None)
        when = "cold" if key == "cold_seconds" else "with the cache"
        add(
            f"first update within {limit:.0f} s {when}, the slowest",
            "{:.1f} s".format,
            most,
            lambda m=most, x=limit: m <= x,
        )
    demo = results.get("demo", {})
    processor = next((figures for name, figures in demo.items() if name.startswith("processor")), {})
    gpu = demo.get("second run", {})
    times = [
        sum(figures.get(key, float("nan")) for key in ("training_seconds", "evaluation_seconds"))
        for figures in (gpu, processor)
    ]
    ratio = times[0] / times[1] if times[0] == times[0] and times[1] == times[1] else None
    add(
        "make demo, second run: at most half of the processor's time",
        "{:.2f} of it".format,
        ratio,
        lambda: ratio <= 0.5,
    )
    for key in ("bleu", "aer"):
        values = gpu.get(key), processor.get(key)
        gap = None if None in values else values[0] - values[1]
        add(f"demo, {key.upper()}: within seeds' noise", "{:+.2f}".format, gap, lambda g=gap: abs(g) <= 0.5)
    difference = find("archive", "the same weights by GPU and processor", "largest_difference")
    add(f"archive: equal to {DIFFERENCE:.0e}", "{:.1e}".format, difference, lambda: difference <= DIFFERENCE)
    search = {name: figures.get("seconds") for name, figures in results.get("search", {}).items()}
    for name in ("CTranslate2, float16", "Hugging Face Marian, float16"):
        value = search["qkv"] / search[name] if search.get("qkv") and search.get(name) else None
        add(f"beam search beside {name}", "{:.2f} times its time".format, value, lambda v=value: v <= 1)
    used, free = (find("memory", "base, batch_tokens auto", f"{key}_megabytes") for key in ("used", "free"))
    value = used / free if used and free else None
    add("batch_tokens auto: memory used of what was free", _percent, value, lambda: value <= 1)
    return judged
