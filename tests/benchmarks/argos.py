"""How many texts of Argos Translate are those of CTranslate2, of a run that is exported for both.

python -m tests.benchmarks.argos RUN --argos PYTHON [--source FILE] [--sentences 200] [--quantization int8]

PYTHON is the interpreter of an environment with argostranslate 1.11, which needs no qkv. The package is installed there
into a folder of its own and translates each sentence. CTranslate2 translates what the run reads, the tokens of the run,
from the export of its own format, with the same search and number format. Argos Translate would download the model by
which it splits text into sentences; here each line is one sentence.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from qkv.commands import export

IN_ARGOS = """
import json, sys, time
import argostranslate.package, argostranslate.sbd, argostranslate.translate
import ctranslate2, sentencepiece

asked = json.load(open(sys.argv[1], encoding="utf-8"))
argostranslate.sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
argostranslate.package.install_from_path(asked["package"])
argostranslate.translate.translate("", *asked["codes"])  # loads the model
started = time.perf_counter()
texts = [argostranslate.translate.translate(line, *asked["codes"]) for line in asked["lines"]]
seconds = time.perf_counter() - started
translator = ctranslate2.Translator(asked["folder"], compute_type=argostranslate.settings.compute_type)
processor = sentencepiece.SentencePieceProcessor(model_file=asked["folder"] + "/sentencepiece.model")
expected = []
for pieces in asked["pieces"]:
    (found,) = translator.translate_batch([pieces], replace_unknowns=True, beam_size=4, length_penalty=0.2)
    expected.append(processor.decode_pieces(found.hypotheses[0]))
json.dump([texts, expected, seconds, translator.compute_type], open(sys.argv[2], "w", encoding="utf-8"))
"""


def translate_in_argos(python: str, place: Path, asked: dict) -> tuple[list[str], list[str], float, str]:
    """Returns the texts of Argos Translate, those of CTranslate2, the seconds of the former, and the number format."""
    (place / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    folders = {f"XDG_{name}_HOME": str(place / name) for name in ("DATA", "CONFIG", "CACHE")}
    without_ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-c", IN_ARGOS, str(place / "asked.json"), str(place / "texts.json")]
    subprocess.run(command, check=True, env=without_ours | folders, cwd=place)
    return json.loads((place / "texts.json").read_text(encoding="utf-8"))


def main() -> None:
    """Prints the number of equal texts, and those that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--argos", required=True, metavar="PYTHON", help="Python with argostranslate 1.11")
    parser.add_argument("--source", type=Path, help="sentences, one per line (default: the run's test set)")
    parser.add_argument("--sentences", type=int, default=200, help="translate this many (default: 200)")
    parser.add_argument("--quantization", default="float32", help="the number format of the weights (default: float32)")
    options = parser.parse_args()
    import qkv
    from qkv.text.corpora.formats import read_corpus

    run = qkv.load(options.run)
    lines = (
        options.source.read_text(encoding="utf-8").splitlines()
        if options.source
        else list(read_corpus(run.config.data.test).source)
    )
    lines = lines[: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("argos", "ctranslate2"):
            arguments = [str(options.run), str(place / name), "--format", name, "--quantization", options.quantization]
            if status := export.main([*arguments, "--sentences", str(len(lines))]):
                raise SystemExit(status)
        (package,) = (place / "argos").glob("*.argosmodel")
        tokenizer, data = run.trained.tokenizer, run.config.data
        _, ids = run.trained.reader.read(lines)
        asked = {
            "package": str(package),
            "folder": str(place / "ctranslate2"),
            "codes": [data.source_language, data.target_language],
            "lines": lines,
            "pieces": [tokenizer.pieces(row) for row in ids],
        }
        texts, expected, seconds, kind = translate_in_argos(options.argos, place, asked)
        megabytes = package.stat().st_size / 1e6
    decoding = {"beam_size": 4, "length_penalty": 0.2, "length_divisor": "power", "min_length": 1}
    values = run.config.decoding.model_copy(update={"search": "beam", "n_best": 1, **decoding})
    ours = run.trained.with_config(run.config.model_copy(update={"decoding": values})).translator.translate(lines)
    as_ours = sum(text == translation.text for text, translation in zip(texts, ours, strict=True))
    equal = sum(text == other for text, other in zip(texts, expected, strict=True))
    print(f"{equal} of {len(lines)} texts of Argos Translate are CTranslate2's, both in {kind}")
    print(f"{as_ours} of {len(lines)} are the run's with this search in float32")
    print(f"{1000 * seconds / len(lines):.0f} ms a sentence; the package has {megabytes:.1f} MB")
    for line, text, other in zip(lines, texts, expected, strict=True):
        if text != other:
            print(f"- {line!r}: {text!r}, CTranslate2 {other!r}")


if __name__ == "__main__":
    main()
