"""Export to a package of Argos Translate 1.11, which LibreTranslate uses, too: a zip file, and the package as loaded.

Argos Translate splits text into sentences, tokenises them by SentencePiece, and translates them by CTranslate2 with
settings of its own: a beam of 4 and a length penalty of 0.2. It copies source words in the place of unknown tokens.
"""

import json
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import chain, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
import sentencepiece

from ..files.atomic import replaced_when_done, write_atomically
from ..run.trained_run import TrainedRun
from ..runtime.import_tensorflow import silenced_stderr
from ..text.lines.language_names import name_language
from ..text.tokens.special_tokens import WORD_START
from .ctranslate2_model import TOKENIZER_FILE, LoadedCTranslate2, write_model

PACKAGE_VERSION = "1.0"
ARGOS_VERSION = "1.11"
CARD = "README.md"
POSITIONS = 1026
"""The largest number of positions that Argos Translate asks for: it keeps 1,024 tokens of a source, BOS and EOS not
counted, and 256 of a translation."""
LENGTH_PENALTY = 0.2


def write_argos(run: TrainedRun, folder: Path, quantization: str = "float32") -> Path:
    """Writes a run as a package of Argos Translate.

    The package has the CTranslate2 model, the SentencePiece model, `metadata.json`, and the model card of the folder if
    there is one. A tag of `decoding.tag` is put before every source.

    Args:
        run: the run. Its text is not divided into words, and its tokenizer has one SentencePiece model.
        folder: the folder to write the package into.
        quantization: the number format of the weights, one of `exchange.export.QUANTIZATIONS`.

    Returns:
        The path of the package, `translate-SOURCE_TARGET-1_0.argosmodel` in the folder.

    Raises:
        InputError: see `exchange.ctranslate2_model.write_model`.
    """
    codes = _codes(run)
    package = folder / package_name(run)
    metadata = {
        "type": "translate",
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": codes[0],
        "from_name": name_language(codes[0]),
        "to_code": codes[1],
        "to_name": name_language(codes[1]),
        "links": [],
    }
    with TemporaryDirectory(dir=folder) as temporary:
        content = Path(temporary)
        (content / "model").mkdir()
        write_model(run, content / "model", quantization, positions=POSITIONS, source_start=run.tokenizer.tag)
        write_atomically(content / TOKENIZER_FILE, subword_model(run))
        write_atomically(content / "metadata.json", json.dumps(metadata, indent=2).encode())  # read in any encoding
        if (folder / CARD).is_file():
            shutil.copyfile(folder / CARD, content / CARD)
        with replaced_when_done(package) as written, ZipFile(written, "w", ZIP_DEFLATED) as archive:
            for path in sorted(content.rglob("*")):
                if path.is_file():
                    # Without the time of the file, equal runs give equal packages.
                    entry = ZipInfo(f"{package.stem}/{path.relative_to(content).as_posix()}")
                    entry.compress_type, entry.external_attr = ZIP_DEFLATED, 0o644 << 16
                    archive.writestr(entry, path.read_bytes())
    return package


def package_name(run: TrainedRun) -> str:
    """Returns the name of the package of a run, as Argos Translate names packages."""
    return f"translate-{'_'.join(_codes(run))}-{PACKAGE_VERSION.replace('.', '_')}.argosmodel"


def _codes(run: TrainedRun) -> tuple[str, str]:
    """Returns the codes of the source and the target language."""
    return run.config.data.source_language, run.config.data.target_language


def subword_model(run: TrainedRun) -> bytes:
    """Returns the run's SentencePiece model, which reads text as the run does.

    Argos Translate passes text on unchanged. So the model composes accents, leaves out invisible characters without a
    token and reads white space without a token as a space; see `Tokenizer.as_read`. A tokenizer that the run has not
    trained is returned unchanged: it may normalise text in another way.
    """
    tokenizer = run.tokenizer
    if run.config.tokenizer.kind == "given":
        return tokenizer.model
    left_out, spaces = tokenizer.unread
    rules = {**compositions(), **dict.fromkeys(left_out, ""), **dict.fromkeys(spaces, " ")}
    rules.pop("\0", None)  # the end of a text in SentencePiece
    with silenced_stderr():  # SentencePiece reports the number of rules
        normalizer = sentencepiece.SentencePieceNormalizer(
            norm_map=sorted(rules.items()),
            add_dummy_prefix=True,
            escape_whitespaces=True,
            remove_extra_whitespaces=True,
        )
    # Two protobuf messages in one file are read as one, which has the normalisation of the second.
    return tokenizer.model + normalizer.serialized_model_proto()


def compositions() -> dict[str, str]:
    """Returns the composed character (NFC) of each sequence of characters that Unicode composes to one character.

    Marks may come in any order, and be partly composed. Syllables of Hangul are left out: SentencePiece would need a
    rule for each of 11,172, and text is hardly ever written without them.
    """
    rules = {}
    for code in chain(range(0xC0, 0xAC00), range(0xF900, 0x2FA1E)):
        character = chr(code)
        composed = unicodedata.normalize("NFC", character)
        parts = unicodedata.normalize("NFD", character)
        if parts == character:
            continue
        rules[character] = composed
        for marks in permutations(parts[1:]):
            sequence = parts[0] + "".join(marks)
            if unicodedata.normalize("NFC", sequence) == composed:
                for length in range(1, len(sequence) + 1):
                    rules[unicodedata.normalize("NFC", sequence[:length]) + sequence[length:]] = composed
    return {sequence: composed for sequence, composed in rules.items() if sequence != composed}


class LoadedArgos:
    """A package of `write_argos`, read as Argos Translate reads it; with the interface `exchange.parity.ExportedModel`.

    It computes in the number format of the weights, and searches as the settings say. Argos Translate itself computes
    in the fastest format of the processor, usually int8, unless `ARGOS_COMPUTE_TYPE` says otherwise.

    Args:
        package: the path of the package.
    """

    fixed_decoding: Mapping[str, Any] = {
        **LoadedCTranslate2.fixed_decoding,
        "length_penalty": LENGTH_PENALTY,
        "coverage_penalty": 0.0,
        "no_repeat_ngram": 0,
        "min_length": 1,
    }

    def __init__(self, package: Path) -> None:
        import ctranslate2

        with TemporaryDirectory() as folder, ZipFile(package) as archive:
            archive.extractall(folder)
            content = Path(folder) / package.stem
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(content / TOKENIZER_FILE))
            self._translator = ctranslate2.Translator(str(content / "model"), compute_type="default")

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        results = self._translator.translate_batch(
            self._processor.encode(list(sources), out_type=str),
            beam_size=decoding.beam_size,
            length_penalty=decoding.length_penalty,
            max_decoding_length=longest,
        )
        return [self._text(result.hypotheses[0]) for result in results]

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        pieces = [self._processor.encode(list(side), out_type=str) for side in (sources, targets)]
        return [np.array(score.log_probs) for score in self._translator.score_batch(*pieces)]

    def _text(self, pieces: Sequence[str]) -> str:
        """Returns the text of a translation as Argos Translate writes it: an underscore becomes a space."""
        return self._processor.decode_pieces(list(pieces)).replace(WORD_START, " ").replace("_", " ").removeprefix(" ")
