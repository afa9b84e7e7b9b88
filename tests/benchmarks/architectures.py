"""Trains and evaluates architectures and score functions on the same batches of Multi30k, and puts them side by side.

    python data/multi30k/prepare.py
    python -m tests.benchmarks.architectures [--updates 1000] [--seeds 1 2] [--only NAME ...]

All share data, tokenizer, batches, optimiser, schedule (up over a fifth of the updates, then down to zero) and search;
sizes, dropout and learning rate are those of each config. The minutes say what a model costs. Runs go to
`runs/architectures/`; the same command goes on with what was stopped. The table goes to `runs/architectures/table.md`
and `.csv`.
"""

from pathlib import Path

from tests.benchmarks.training_runs import read_options, tested, train, trained, write_table

RUNS = Path("runs/architectures")
RECURRENT = "configs/multi30k_en_de_recurrent.yaml"
DECODER_ONLY = "configs/multi30k_en_de_decoder_only.yaml"
TRANSFORMER = "configs/multi30k_en_de_small.yaml"
# As the others train, so that what differs is the architecture.
AS_OTHERS = {
    "training.optimizer": "adam",
    "training.average_checkpoints": 1,
    "training.r_drop": 0.0,
    "batches.batch_tokens": 3072,
    "model.dropout": 0.2,
    "decoding.length_penalty": 1.0,
}
VARIANTS = {
    "recurrent, one context vector": (RECURRENT, {"model.cross_attention": "none"}),
    "recurrent, additive": (RECURRENT, {}),
    "decoder-only": (DECODER_ONLY, {}),
    "Transformer, scaled dot": (TRANSFORMER, AS_OTHERS),
    "Transformer, dot": (TRANSFORMER, {**AS_OTHERS, "model.attention.cross.score": "dot"}),
    "Transformer, additive": (TRANSFORMER, {**AS_OTHERS, "model.attention.cross.score": "additive"}),
    "Transformer, cosine": (TRANSFORMER, {**AS_OTHERS, "model.attention.cross.score": "cosine"}),
}


def main() -> None:
    """Trains what is missing, then prints the table."""
    options = read_options(__doc__.splitlines()[0], 1000, VARIANTS)
    rows = []
    for seed in options.seeds:
        for name in options.only:
            config, changes = VARIANTS[name]
            settings: dict[str, object] = {
                "run.seed": seed,
                "batches.batch_tokens": 3072,
                "training.schedule": "linear",
                "training.warmup_updates": options.updates // 5,
                "training.max_updates": options.updates,
                "training.max_minutes": "null",
                "training.validate_every_updates": max(1, options.updates // 4),
                **changes,
            }
            folder = f"{name.replace(', ', '-').replace(' ', '_').lower()}-{options.updates}-seed{seed}"
            run = train(RUNS / folder, config, settings)
            rows.append({"model": name, "seed": seed, **tested(run), **trained(run)})
    write_table(rows, RUNS)


if __name__ == "__main__":
    main()
