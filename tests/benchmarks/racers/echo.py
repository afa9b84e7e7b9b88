"""A racer that learns nothing: its second checkpoint repeats the source, its others say less."""

from pathlib import Path

PACKAGES = ("sacrebleu",)
BEAM = 2


def train(clock, text: Path) -> int:
    """Saves three checkpoints."""
    if (text / "broken").exists():
        raise ValueError("this text cannot be learnt")
    for number, words in enumerate((1, 100, 5), 1):
        (clock.folder / "checkpoints" / f"{number:02d}").write_text(str(words))
        clock.record(f"{number:02d}", float(number), 10 * number, 100.0 * number)
    clock.updates, clock.target_tokens = 30, 300.0
    return 7


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """The first words of each sentence."""
    with (checkpoint.parents[1] / "translations.log").open("a") as log:
        log.write(f"{checkpoint.name} {beam}\n")
    return [" ".join(sentence.split()[: int(checkpoint.read_text())]) for sentence in sentences]
