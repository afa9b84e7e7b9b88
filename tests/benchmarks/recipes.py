"""Trains the preset of Multi30k, without R-Drop, with one setting changed at a time: what each is worth on validation.

    python data/multi30k/prepare.py
    python -m tests.benchmarks.recipes [--updates 2400] [--seeds 1 2] [--only NAME ...]

Every run sees the text as often (seven times with 2,400 updates), its learning rate rises over a sixth of the updates
and, unless the schedule is another, ends at zero. BLEU is that of greedy search. Runs go to `runs/recipes/`; the same
command goes on with what was stopped. The table goes to `runs/recipes/table.md` and `.csv`. Two runs at once, a core
each: `taskset -c 0` before the command with some of the names, `taskset -c 1` with others, then once with all.
"""

from pathlib import Path

from tests.benchmarks.training_runs import read_options, train, trained, write_table

RUNS = Path("runs/recipes")
CONFIG = "configs/multi30k_en_de_small.yaml"
# Keys of the config and their values; a number in `updates` is a factor on the number of updates.
RECIPES: dict[str, dict[str, object]] = {
    "base": {},
    "Adam": {"training.optimizer": "adam", "training.learning_rate": 0.0035},
    "pre-norm": {"model.norm": "pre"},
    "dropout 0.1": {"model.dropout": 0.1},
    "dropout 0.3": {"model.dropout": 0.3},
    "attention dropout 0.1": {"model.attention_dropout": 0.1},
    "activation dropout 0.1": {"model.activation_dropout": 0.1},
    "no label smoothing": {"training.label_smoothing": 0.0},
    "R-Drop, weight 1": {"training.r_drop": 1.0},
    "R-Drop, weight 5": {"training.r_drop": 5.0},
    "BPE-dropout 0.1": {"tokenizer.bpe_dropout": 0.1},
    "unigram pieces": {"tokenizer.kind": "unigram"},
    "cosine schedule": {"training.schedule": "cosine"},
    "inverse square root": {"training.schedule": "inverse_sqrt"},
    "inverse square root, mean of 5": {"training.schedule": "inverse_sqrt", "training.average_checkpoints": 5},
    "3,072 tokens a batch": {"batches.batch_tokens": 3072, "updates": 1 / 2},
}


def settings(name: str, updates: int, seed: int) -> dict[str, object]:
    """What makes a run of the recipe, beside the config."""
    changes = dict(RECIPES[name])
    updates = round(updates * changes.pop("updates", 1))
    return {
        "run.seed": seed,
        "training.max_updates": updates,
        "training.max_minutes": "null",
        "training.warmup_updates": updates // 6,
        "training.validate_every_updates": max(1, updates // 8),
        "training.average_checkpoints": 1,
        "training.r_drop": 0.0,  # an update takes twice as long
        **changes,
    }


def main() -> None:
    """Trains what is missing, then prints the table."""
    options = read_options(__doc__.splitlines()[0], 2400, RECIPES)
    rows = []
    for seed in options.seeds:
        for name in options.only:
            folder = f"{name.replace(',', '').replace(' ', '_').lower()}-{options.updates}-seed{seed}"
            run = train(RUNS / folder, CONFIG, settings(name, options.updates, seed))
            rows.append({"recipe": name, "seed": seed, **trained(run)})
    write_table(rows, RUNS)


if __name__ == "__main__":
    main()
