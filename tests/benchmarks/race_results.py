"""What the race leaves: its table, its curves and its picture."""

from pathlib import Path
from typing import Any

import pandas as pd

from tests.benchmarks.contest import machine, table
from tests.benchmarks.race_picture import draw


def write_results(rows: list[dict[str, Any]], folder: Path) -> None:
    """Writes table, curves and picture, the best on the test set first."""
    results = pd.DataFrame(rows).sort_values("test BLEU", ascending=False)
    curve = pd.DataFrame([point for row in rows for point in row["curve"]])
    curve.to_csv(folder / "curve.csv", index=False)
    results.drop(columns="curve").to_csv(folder / "results.csv", index=False)
    cells = [
        [
            row["racer"],
            row["version"],
            f"`{row['command']}`",
            f"{row['minutes']:.1f}",
            f"{row['validation BLEU']:.2f}",
            f"**{row['test BLEU']:.2f}** ({row['search']})",
            f"{row['target tokens/s']:,.0f}",
            f"{row['parameters']:,}",
        ]
        for row in results.to_dict("records")
    ]
    header = ["", "versions", "command", "minutes", "validation BLEU", "test BLEU", "target tokens/s", "parameters"]
    text = f"{table(header, cells)}\n\n{machine()}\n"
    (folder / "results.md").write_text(text, encoding="utf-8")
    print(text)
    for suffix in ("svg", "png"):
        draw(curve, folder / f"race.{suffix}")
