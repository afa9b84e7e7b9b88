"""The model card of an export, `README.md`: languages, training text, scores, use, repetition and limits.

It has the form of Hugging Face: a head in YAML, then Markdown (Mitchell et al. 2019 describe the content). Text that a
user has written, such as names and paths, is escaped, so that it is neither markup nor a key of the head.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sacrebleu

from ..config.run import load_started_run
from ..config.yaml import dump_yaml
from ..errors import InputError
from ..evaluation.systems import read_metrics
from ..evaluation.tables import read_translations
from ..files.json import read_json_if_whole
from ..files.run_directory import EVALUATIONS, EvaluationDirectory
from ..metrics.bleu import CorpusScore, check_bleu_tokenizer, make_bleu
from ..run.trained_run import TrainedRun
from ..statistics.resampling import SAMPLES, interval, parts_of_samples, sentence_counts
from ..text.lines.language_names import name_language
from ..text.lines.line import INVISIBLE
from .argos_package import package_name

_LICENCES = """
apache-2.0 bsd-3-clause cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0
cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0
gpl-3.0 lgpl-3.0 mit odbl odc-by pddl unlicense
"""
LICENCES = frozenset(_LICENCES.split())
"""The names of licences that Hugging Face knows. It expects `other`, and a name, for all others."""

log = logging.getLogger(__name__)


class CardFormat(NamedTuple):
    """The parts of a model card that depend on the format of the export.

    - library: the name of the other program in the head.
    - use: a script that translates a sentence; `{package}` stands for the name of the package, `{codes}` for the codes
      of both languages as Python writes them.
    - limits: the limits of the other program, as sentences.
    """

    library: str
    use: str
    limits: Sequence[str] = ()


CARD_FORMATS = {
    "saved_model": CardFormat(
        "tensorflow",
        """\
import tensorflow as tf
import tensorflow_text  # has the tokenizer's operations

model = tf.saved_model.load(".")  # this folder
print(model.translate(tf.constant(["A sentence."]), tf.constant(True))["text"].numpy()[0].decode())""",
    ),
    "ctranslate2": CardFormat(
        "ctranslate2",
        """\
import ctranslate2
import sentencepiece

source, target = (sentencepiece.SentencePieceProcessor(model_file=file) for file in ({models}))
pieces = source.encode("A sentence.", out_type=str)
print(target.decode(ctranslate2.Translator(".").translate_batch([pieces])[0].hypotheses[0]))""",
        ["Accents are composed (NFC) before a sentence is tokenised."],
    ),
    "marian": CardFormat(
        "transformers",
        """\
from transformers import MarianMTModel, MarianTokenizer

tokenizer, model = MarianTokenizer.from_pretrained("."), MarianMTModel.from_pretrained(".")
found = model.generate(**tokenizer(["A sentence."], return_tensors="pt"))
print(tokenizer.batch_decode(found, skip_special_tokens=True)[0])""",
    ),
    "argos": CardFormat(
        "ctranslate2",
        """\
import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path("{package}")
print(argostranslate.translate.translate("A sentence.", {codes}))""",
        [
            "Argos Translate searches with a beam of 4 and a length penalty of 0.2, whatever the settings of the run.",
            "It computes in int8 on most processors, unless `ARGOS_COMPUTE_TYPE` is `float32`.",
            "It writes an underscore as a space, and copies a source word in the place of an unknown token.",
            "It splits text into sentences by MiniSBD, whose model it downloads at the first translation.",
            "It cuts sentences after 1,024 tokens and translations after 256.",
        ],
    ),
}


def write_model_card(run: TrainedRun, export_format: str) -> str:
    """Returns the text of the model card of a run, for an export to a format, a key of `CARD_FORMATS`."""
    scores = list(read_scores(run))
    head = dump_yaml(_head(run, export_format, scores))
    data = run.config.data
    title = " to ".join(escaped(name_language(code)) for code in (data.source_language, data.target_language))
    sections = {
        "Use": _use(run, export_format),
        "Training text": _training_text(run),
        "Model": _model(run),
        "Scores": _scores(scores),
        "Limits": _limits(run, export_format),
        "Repeat it": _repetition(run),
    }
    body = "\n".join("\n".join((f"## {name}", *lines, "")) for name, lines in sections.items())
    return f"---\n{head}---\n\n# {title}: {escaped(str(run.config.run.name))}\n\n{body}"


def escaped(text: str) -> str:
    """Returns text that a user has written, as one line of Markdown that is shown as it is written."""
    line = " ".join(INVISIBLE.sub(" ", text).split())
    return re.sub(r"([\\`*_\[\]<>|~&#$!:@(){}])", r"\\\1", line)


def as_code(text: str) -> str:
    """Returns text that a user has written, such as a path, as code in a line of Markdown."""
    line = " ".join(INVISIBLE.sub(" ", text).split())
    return f"`{line}`" if line and "`" not in line else escaped(line)


def _as_cell(text: str) -> str:
    """Returns text that a user has written as code in a cell of a table, which a vertical bar would end."""
    return escaped(text) if "|" in text else as_code(text)


def fenced(text: str, language: str) -> list[str]:
    """Returns the lines of a block of code in Markdown. Its fence is longer than all rows of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.splitlines(), fence]


class EvaluationScores(NamedTuple):
    """The scores of an evaluation of the exported weights.

    - name: the name of the evaluation, such as `test`.
    - metrics: the content of its `metrics.json`.
    - values: for each score by name its value, and the ends of its 95 % interval over sentences; NaN if unknown.
    """

    name: str
    metrics: Mapping[str, Any]
    values: Mapping[str, tuple[float, float, float]]


def read_scores(run: TrainedRun) -> Iterator[EvaluationScores]:
    """Yields the scores of the run's evaluations with references, in the order of their names.

    Evaluations of other weights than the run's are left out, and those with damaged files, with a warning.
    """
    folder = run.directory.results / EVALUATIONS
    for root in sorted(folder.iterdir()) if folder.is_dir() else ():
        evaluation = run.directory.evaluation(root.name)
        if not evaluation.metrics.is_file():
            continue
        try:
            metrics = read_metrics(evaluation.metrics)
            if metrics.get("bleu") is not None and _is_of_weights(run, evaluation, metrics):
                yield EvaluationScores(root.name, metrics, _values(evaluation, metrics))
        except InputError as error:
            log.warning("the model card leaves out an evaluation: %s", error)


def _is_of_weights(run: TrainedRun, evaluation: EvaluationDirectory, metrics: Mapping[str, Any]) -> bool:
    """Returns whether an evaluation is of the run's weights, and not of another checkpoint or an earlier training."""
    archived = read_json_if_whole(evaluation.attention / "manifest.json").get("model_sha256")
    manifest = read_json_if_whole(run.directory.manifest)
    return metrics.get("checkpoint") == run.weights_name and archived in (None, manifest.get("model_sha256"))


def _values(evaluation: EvaluationDirectory, metrics: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Returns BLEU, chrF and, with gold alignments, the AER of an evaluation; see `EvaluationScores`.

    Raises:
        InputError: the table of translations is missing or damaged, or the tokenizer of BLEU is not installed.
    """
    table = read_translations(evaluation.translations)
    tokenizer = metrics.get("bleu_tokenizer", "")
    check_bleu_tokenizer(tokenizer, str(evaluation.metrics))
    if "reference" not in table or table.empty or metrics.get("chrf") is None:
        raise InputError(f"{evaluation.root}: no references, or no chrF; evaluate the run again")
    values = {}
    for name, metric in (("bleu", make_bleu(tokenizer)), ("chrf", sacrebleu.CHRF())):
        score = CorpusScore.of(metric, table["translation"].tolist(), table["reference"].tolist())
        parts = parts_of_samples(SAMPLES, len(table))
        drawn = [
            score.of_samples(sentence_counts(len(table), samples=samples, seed=number))
            for number, samples in enumerate(parts)
        ]
        low, high = interval(np.concatenate(drawn))
        values[name] = metrics[name], float(low), float(high)
    alignment = metrics.get("alignment", {})
    if alignment.get("aer") is not None:
        values["aer"] = alignment["aer"], alignment.get("aer_low", np.nan), alignment.get("aer_high", np.nan)
    return values


SCORE_NAMES = {"bleu": "BLEU", "chrf": "chrF", "aer": "alignment error rate, %"}


def _head(run: TrainedRun, export_format: str, scores: Sequence[EvaluationScores]) -> dict[str, Any]:
    """Returns the head of the card, as Hugging Face reads it."""
    data = run.config.data
    codes = list(dict.fromkeys((data.source_language, data.target_language)))
    head: dict[str, Any] = {"language": codes}
    if data.licence is not None:
        licence = data.licence.strip().lower().replace(" ", "-")
        head |= {"license": licence} if licence in LICENCES else {"license": "other", "license_name": data.licence}
    head |= {
        "library_name": CARD_FORMATS[export_format].library,
        "pipeline_tag": "translation",
        "tags": ["translation", "qkv", export_format],
    }
    if scores:
        head["metrics"] = ["bleu", "chrf"]
        task = {"type": "translation", "name": "Translation"}
        results = [
            {
                "task": task | {"args": "-".join(codes)},
                "dataset": {"name": score.name, "type": score.name},
                "metrics": [
                    {"type": name, "name": SCORE_NAMES[name], "value": round(score.values[name][0], 4)}
                    for name in head["metrics"]
                ],
            }
            for score in scores
        ]
        head["model-index"] = [{"name": str(run.config.run.name), "results": results}]
    return head


def _use(run: TrainedRun, export_format: str) -> list[str]:
    data = run.config.data
    models = ["source.spm", "target.spm"] if run.directory.has_imported_tokenizer else ["sentencepiece.model"] * 2
    script = CARD_FORMATS[export_format].use
    replacements = {
        "{package}": package_name(run),
        "{codes}": f"{data.source_language!r}, {data.target_language!r}",
        "{models}": ", ".join(f'"{model}"' for model in models),
    }
    for placeholder, replacement in replacements.items():
        script = script.replace(placeholder, replacement)
    return fenced(script, "python")


def _training_text(run: TrainedRun) -> list[str]:
    """Returns the section about the corpus: its name and licence as the config states them, files and pairs."""
    data = run.config.data
    report = read_json_if_whole(run.directory.corpus_report)
    corpus = "not stated" if data.corpus is None else escaped(data.corpus)
    licence = "not stated" if data.licence is None else escaped(data.licence)
    lines = [f"- Corpus: {corpus}", f"- Licence: {licence}"]
    if isinstance(files := report.get("files"), str):
        lines.append(f"- Files: {as_code(files)}")
    pairs, kept = report.get("pairs"), report.get("kept")
    if isinstance(pairs, int) and isinstance(kept, int):
        lines.append(f"- Sentence pairs: {pairs:,}, of which {kept:,} are trained on")
    elif not data.training_corpora:
        lines.append("- The model was imported from Marian, so its training text is unknown to qkv")
    return lines


def _model(run: TrainedRun) -> list[str]:
    """Returns the section about sizes and decoding settings."""
    settings: Any = run.config.model
    decoding = run.config.decoding
    layers = [
        f"{getattr(settings, name)} {name.replace('_', ' ')}"
        for name in ("encoder_layers", "decoder_layers", "layers")
        if isinstance(getattr(settings, name, None), int)
    ]
    width = f", width {settings.d_model}" if hasattr(settings, "d_model") else ""
    return [
        f"- {settings.architecture.replace('_', '-')}, {', '.join(layers)}{width}, {run.model.count_params():,} "
        f"parameters, {run.tokenizer.vocabulary_size:,} tokens for both languages",
        f"- Search in qkv: beam of {decoding.beam_size}, length penalty {decoding.length_penalty:g}, divisor "
        f"{decoding.length_divisor}",
    ]


def _scores(scores: Sequence[EvaluationScores]) -> list[str]:
    """Returns the section of scores: a table with a row for each score of each evaluation."""
    if not scores:
        return ["These weights have not been evaluated by qkv."]
    lines = ["| set | sentences | score | value | 95 % interval |", "|---|---:|---|---:|---:|"]
    for evaluation in scores:
        for name, (value, low, high) in evaluation.values.items():
            ends = "" if np.isnan(low) else f"{low:.2f} to {high:.2f}"
            row = (escaped(evaluation.name), f"{evaluation.metrics.get('sentences', 0):,}", SCORE_NAMES[name])
            lines.append(f"| {' | '.join((*row, f'{value:.2f}', ends))} |")
    lines += ["", "Intervals are of a bootstrap over sentences. qkv has translated, in float32:"]
    for evaluation in scores:
        search, decoding = evaluation.metrics.get("search", ""), evaluation.metrics.get("decoding", {})
        beam = f", beam of {decoding.get('beam_size')}, length penalty {decoding.get('length_penalty')}"
        signatures = evaluation.metrics.get("signatures", {})
        named = ", ".join(as_code(str(signatures[name])) for name in ("bleu", "chrf") if name in signatures)
        lines.append(f"- {escaped(evaluation.name)}: {escaped(str(search))} search{beam}; {named}")
    return lines


def _limits(run: TrainedRun, export_format: str) -> list[str]:
    """Returns the section of limits, of the run and of the other program."""
    data, model = run.config.data, run.config.model
    limits = [f"Sentences of more than {model.max_positions - 1:,} tokens are longer than the model was made for."]
    if data.train is not None:
        limits.append(
            f"Training pairs had at most {data.max_source_tokens:,} source and {data.max_target_tokens:,} target "
            "tokens: longer text is to be split into sentences."
        )
    if data.tokenized:
        limits.append("Words and punctuation of the input are divided by spaces, as in the training text.")
    if data.normalize is not None and export_format != "argos":
        limits.append("`data.normalize` is not part of the export: give text the style of the training text first.")
    if run.tokenizer.tag is not None:
        tag = as_code(run.tokenizer.tag)
        added = "is put before every sentence" if export_format == "argos" else "is to be put before every sentence"
        limits.append(f"The tag {tag} {added}.")
    limits += CARD_FORMATS[export_format].limits
    limits.append("Translations may be wrong in meaning, names and numbers, all the more for other kinds of text.")
    return [f"- {sentence}" for sentence in limits]


def _repetition(run: TrainedRun) -> list[str]:
    """Returns the section about how to train the model again: settings, versions, and digests of all files."""
    config = load_started_run(run.directory.config) if run.directory.config.is_file() else run.config
    manifest = read_json_if_whole(run.directory.manifest)
    versions = manifest.get("versions", {})
    digests = {
        "weights": run.weights_sha256(),
        "tokenizer": manifest.get("tokenizer_sha256"),
        **manifest.get("data_sha256", {}),
    }
    lines = [
        f"`qkv train --config FILE` with the settings below, on seed {config.run.seed}. All other settings have their "
        "defaults.",
        "",
        *fenced(dump_yaml(config.model_dump(mode="json", exclude_defaults=True)), "yaml"),
    ]
    if versions:
        named = ", ".join(escaped(f"{name} {version}") for name, version in versions.items())
        commit = manifest.get("git_commit")
        lines += ["", f"Trained with {named}" + (f", commit {as_code(str(commit))}." if commit else ".")]
    lines += ["", "| file | SHA-256 |", "|---|---|"]
    lines += [f"| {_as_cell(str(name))} | {_as_cell(str(digest))} |" for name, digest in digests.items() if digest]
    return lines
