"""The minutes of a racer, and the checkpoints that it saves in them."""

import json
import time
from collections.abc import Callable
from pathlib import Path

SHARES = (1 / 12, 2 / 12, 3 / 12, 4 / 12, 6 / 12, 8 / 12, 10 / 12, 1)  # of the minutes, at which checkpoints are saved
CHECKPOINTS = "checkpoints.jsonl"


class Clock:
    """Counts the minutes since the racer's process was started, and the checkpoints and tokens within them.

    Args:
        folder: the racer's, where it may leave what it likes; checkpoints lie in its folder `checkpoints`.
        minutes: that the racer has.
        started: the time of day in seconds when its process was started; None for now.

    Attributes:
        updates: number of updates until now.
        target_tokens: number of target tokens trained on until now, padding excluded, in the racer's own subwords.
    """

    def __init__(self, folder: Path, minutes: float, started: float | None = None) -> None:
        self.folder = folder
        self.minutes = minutes
        self.started = time.time() if started is None else started
        self.updates = 0
        self.target_tokens = 0.0
        self._saved = 0
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)

    def gone(self) -> float:
        """Returns the minutes since the start."""
        return (time.time() - self.started) / 60

    def share(self) -> float:
        """Returns the share of the minutes that is gone, for learning rates that end with the time."""
        return min(self.gone() / self.minutes, 1.0)

    def after_update(self, target_tokens: float, save: Callable[[Path], object]) -> bool:
        """Counts an update, and saves a checkpoint if one is due.

        Args:
            target_tokens: of its batch.
            save: writes a checkpoint to the path that it is given, to which it may append a suffix.

        Returns:
            Whether there is time left.
        """
        self.updates += 1
        self.target_tokens += target_tokens
        due = sum(self.share() >= share for share in SHARES)
        if due > self._saved:
            self._saved = due
            path = self.folder / "checkpoints" / f"{due:02d}"
            save(path)
            self.record(path.name, self.gone(), self.updates, self.target_tokens)
        return due < len(SHARES)

    def record(self, name: str, minutes: float, updates: int, target_tokens: float) -> None:
        """Notes a checkpoint in the racer's list of them."""
        row = {"name": name, "minutes": minutes, "updates": updates, "target_tokens": target_tokens}
        with (self.folder / CHECKPOINTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def read_checkpoints(folder: Path) -> list[dict]:
    """Returns the checkpoints that a racer has saved, in the order of their time."""
    lines = (folder / CHECKPOINTS).read_text(encoding="utf-8").splitlines()
    return sorted(map(json.loads, lines), key=lambda row: row["minutes"])
