"""Trains a small Transformer of Multi30k with each member of the attention family: what it brings on equal updates.

    python data/multi30k/prepare.py
    python -m tests.benchmarks.family [--updates 1200] [--seeds 1 2] [--only NAME ...]

`configs/multi30k_en_de_small.yaml` with 2 + 2 layers and without R-Drop; one setting changed at a time. BLEU is that of
greedy search on the validation set; "kept" are the numbers that the decoder keeps of each source token and of each
target token while it translates. Runs go to `runs/family/`; the same command goes on with what was stopped. The table
goes to `runs/family/table.md` and `.csv`. What each costs: `python tests/benchmarks/attention.py --mechanisms ...`.
"""

from pathlib import Path
from typing import Any

from qkv.config import load_run_config
from tests.benchmarks.training_runs import ROOT, read_options, train, trained, two_layers, write_table

RUNS = Path("runs/family")
CONFIG = "configs/multi30k_en_de_small.yaml"
SITES = ("encoder_self", "decoder_self", "cross")


def at_every_site(key: str, value: object) -> dict[str, object]:
    """The same setting of the attention at every site."""
    return {f"model.attention.{site}.{key}": value for site in SITES}


MEMBERS: dict[str, dict[str, object]] = {
    "sinusoidal positions, softmax": {},
    "rotary positions": {"model.positions": "rotary"},
    "ALiBi": {"model.positions": "alibi"},
    "two heads of keys and values": at_every_site("key_value_heads", 2),
    "one head of keys and values": at_every_site("key_value_heads", 1),
    "sink in cross-attention": {"model.attention.cross.mechanism": "sink"},
    "sink at every site": at_every_site("mechanism", "sink"),
}


def kept_numbers(run: Path) -> str:
    """How many numbers the decoder keeps of a source token, and of a target token."""
    model: Any = load_run_config(ROOT / run / "config.yaml").model

    def of(site: str) -> int:
        attention = getattr(model.attention, site)
        return 2 * (attention.key_value_heads or model.num_heads) * (model.d_model // model.num_heads)

    return f"{model.decoder_layers * of('cross'):,}, {model.decoder_layers * of('decoder_self'):,}"


def main() -> None:
    """Trains what is missing, then prints the table."""
    options = read_options(__doc__.splitlines()[0], 1200, MEMBERS)
    rows = []
    for seed in options.seeds:
        for name in options.only:
            folder = f"{name.replace(',', '').replace(' ', '_').lower()}-{options.updates}-seed{seed}"
            run = train(RUNS / folder, CONFIG, {**two_layers(options.updates, seed), **MEMBERS[name]})
            rows.append({"member": name, "seed": seed, **trained(run), "kept": kept_numbers(run)})
    write_table(rows, RUNS)


if __name__ == "__main__":
    main()
