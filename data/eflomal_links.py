"""Align the words of a config's training text with eflomal, for `training.guided_attention`.

    pip install eflomal                                   # needs a C compiler
    python data/eflomal_links.py configs/manythings_en_fr_guided.yaml

Both directions are aligned and combined by grow-diag. The links are written to the file that the config names as
`data.train.alignments`, one line for each training pair. Source: R. Östling and J. Tiedemann, "Efficient Word Alignment
with Markov Chain Monte Carlo", 2016.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.commands.cli import ArgumentParser, exit_cleanly
from qkv.errors import InputError
from qkv.runtime.import_tensorflow import importing_tensorflow


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the training text, runs eflomal and writes the links."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path, metavar="CONFIG", help="config file whose data.train is aligned")
    options = parser.parse_args(arguments)
    with importing_tensorflow():
        from qkv.alignment.links import grow_diag
        from qkv.config import load_run_config
        from qkv.text.corpora.formats import read_corpus
        from qkv.text.corpora.word_links import iterate_pharaoh, write_pharaoh
        from qkv.text.lines.line import words_of
        from qkv.text.tokens.words import WordSegmenter

    data = load_run_config(options.config).data
    settings, *others = data.training_corpora
    if others or settings.alignments is None or settings.alignments_turned or settings.alignments_first_index:
        raise InputError(
            f"{options.config}: expected one corpus, and data.train.alignments to name the file to write, "
            "source-target, counted from 0"
        )
    # First beside the running Python, since its virtual environment may not be activated.
    program = shutil.which("eflomal-align", path=Path(sys.executable).parent) or shutil.which("eflomal-align")
    if program is None:
        raise InputError("eflomal-align is not installed: pip install eflomal")
    corpus = read_corpus(settings)
    units = WordSegmenter(data.words.source, data.words.target, data.tokenized).units(corpus.source, corpus.target)
    if "subwords" in units:
        raise InputError(
            f"{options.config}: subwords count as words (data.words), and only a run has them; expected words between "
            "spaces or characters: set data.words to characters, or give text with spaces between words"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target, forward, backward = (
            Path(folder) / name for name in ("source", "target", "forward", "backward")
        )
        for path, lines, unit in zip((source, target), (corpus.source, corpus.target), units, strict=True):
            cut = words_of if unit == "spaces" else lambda line: "".join(line.split())
            # eflomal splits words at any white space, but links count the words between spaces
            words = (" ".join(re.sub(r"\s", "_", word) for word in cut(line)) for line in lines)
            path.write_text("".join(f"{line}\n" for line in words), encoding="utf-8")
        command = [program, *map(str, ("-s", source, "-t", target, "-f", forward, "-r", backward)), "--overwrite"]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            raise InputError(f"{program}: failed; see above")
        for path in (forward, backward):
            path.touch()
            with path.open("rb") as file:
                written = sum(1 for _ in file)
            if written != len(corpus):
                raise InputError(
                    f"{program}: expected a line of links for each of {len(corpus):,} pairs, found {written:,} "
                    f"({path.name}): look for its messages above, and for room in {folder}"
                )
        both = zip(iterate_pharaoh(forward), iterate_pharaoh(backward), strict=True)
        write_pharaoh(settings.alignments, (grow_diag(one.sure, other.sure) for one, other in both))
    print(f"{len(corpus)} pairs aligned: {settings.alignments}")


if __name__ == "__main__":
    sys.exit(main())
