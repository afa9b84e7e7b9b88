"""Model cards: a head that YAML loads, the figures of the run's evaluations, and no text of a user as markup."""

import ast
import json
import re
import shutil
from dataclasses import replace

import pytest
import yaml

from qkv.config import RunConfig
from qkv.config.run import load_started_run
from qkv.exchange.export import EXPORT_FORMATS
from qkv.exchange.model_card import CARD_FORMATS, write_model_card
from qkv.metrics.bleu import score_translations
from qkv.run.trained_run import load_run
from qkv.text.lines.language_names import LANGUAGE_NAMES, name_language
from tests.support import KEPT_RUNS

REFERENCES = ["le chien voit le petit chat .", "la fille dort .", "le chat noir voit le chien .", "elle voit ."] * 5
TRANSLATIONS = ["le chien voit le chat .", "la fille dort .", "le chat voit le chien noir .", "elle le voit ."] * 5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A copy of a kept run."""
    folder = tmp_path_factory.mktemp("runs") / "kept"
    return load_run(shutil.copytree(KEPT_RUNS / "transformer", folder))


@pytest.fixture
def evaluated(run, tmp_path):
    """The run with an evaluation, whose folder and metrics come with it."""
    root = run.directory.evaluation("test").root
    (root / "attention").mkdir(parents=True)
    rows = zip(REFERENCES, TRANSLATIONS, strict=True)
    lines = ["source\treference\ttranslation", *(f"a\t{reference}\t{text}" for reference, text in rows)]
    (root / "translations.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    metrics = {
        "checkpoint": "model.keras",
        "sentences": len(REFERENCES),
        "search": "greedy",
        **score_translations(TRANSLATIONS, REFERENCES, tokenizer="none"),
        "alignment": {"aer": 12.25, "aer_low": 10.5, "aer_high": 14.0},
    }
    write(root, metrics)
    yield run, root, metrics
    shutil.rmtree(root)


def write(root, metrics):
    (root / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")


def parts_of(card):
    """The head, as YAML reads it, and the sections by heading."""
    start, head, body = re.split(r"^---$", card, maxsplit=2, flags=re.MULTILINE)
    assert not start
    title, *sections = re.split(r"^## ", body, flags=re.MULTILINE)
    return yaml.safe_load(head), {"title": title.strip()} | dict(section.split("\n", 1) for section in sections)


def with_settings(run, **changes):
    """The run with other settings, by their names with `__` for a dot."""
    values = run.config.model_dump()
    for name, value in changes.items():
        *sections, key = name.split("__")
        section = values
        for part in sections:
            section = section[part]
        section[key] = value
    return replace(run, config=RunConfig.model_validate(values))


@pytest.mark.parametrize("export_format", EXPORT_FORMATS)
def test_a_card_has_a_head_that_loads_and_a_script_that_compiles(run, export_format):
    head, sections = parts_of(write_model_card(run, export_format))
    assert head["language"] == ["en", "fr"] and head["pipeline_tag"] == "translation"
    assert export_format in head["tags"] and not {"license", "model-index", "metrics"} & {*head}
    assert sections["title"].startswith("# English to French: ")
    script = re.search("```python\n(.*?)\n```", sections["Use"], re.DOTALL)
    ast.parse(script[1])
    assert "Corpus: not stated" in sections["Training text"] and "Licence: not stated" in sections["Training text"]
    assert sections["Scores"].strip() == "These weights have not been evaluated by qkv."
    assert all(limit in sections["Limits"] for limit in CARD_FORMATS[export_format].limits)


def test_the_figures_are_those_of_the_evaluation_with_intervals_around_them(evaluated):
    run, _, metrics = evaluated
    head, sections = parts_of(write_model_card(run, "ctranslate2"))
    (result,) = head["model-index"][0]["results"]
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values == {name: round(metrics[name], 4) for name in ("bleu", "chrf")}
    for name, key in (("BLEU", "bleu"), ("chrF", "chrf")):
        (row,) = re.findall(rf"\| test \| 20 \| {name} \| (.*?) \| (.*?) to (.*?) \|", sections["Scores"])
        value, low, high = map(float, row)
        assert value == round(metrics[key], 2) and low < value < high
    assert "| alignment error rate, % | 12.25 | 10.50 to 14.00 |" in sections["Scores"]
    assert metrics["signatures"]["bleu"] in sections["Scores"]


def change_checkpoint(root, metrics):
    write(root, metrics | {"checkpoint": "checkpoints/update-00000006.npz"})


def change_archive(root, metrics):
    (root / "attention" / "manifest.json").write_text('{"model_sha256": "of the training before"}', encoding="utf-8")


def damage_metrics(root, metrics):
    write(root, metrics | {"bleu": "high"})


def damage_translations(root, metrics):
    (root / "translations.tsv").write_text("source\ttranslation\na\tb\n", encoding="utf-8")


@pytest.mark.parametrize("change", [change_checkpoint, change_archive, damage_metrics, damage_translations])
def test_an_evaluation_of_other_weights_or_with_damaged_files_is_left_out(evaluated, change, caplog):
    run, root, metrics = evaluated
    change(root, metrics)
    _, sections = parts_of(write_model_card(run, "marian"))
    assert sections["Scores"].strip() == "These weights have not been evaluated by qkv."
    assert ("leaves out an evaluation" in caplog.text) == change.__name__.startswith("damage")


HOSTILE = [
    *("x\n---\nlicense: mit", "# A heading\n\n## Scores\n| a | b |", "`code` ``` ~~~ <script>alert(1)</script> [a](b)"),
    *(
        "no",
        "- item: {a: [1",
        "a|b\\|c",
        "\u202eright\u2028to\u0085left",
        "![x](http://a.b) $x$ &amp; *b* __c__",
        "'\"%@!&*",
        "~",
    ),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_user_is_neither_a_key_nor_markup(run, text):
    changed = with_settings(
        run, data__source_language=text, data__corpus=text, data__licence=text, run__name=re.sub(r"[\n/\\]", " ", text)
    )
    head, sections = parts_of(write_model_card(changed, "saved_model"))
    plain, names = parts_of(write_model_card(run, "saved_model"))
    assert head.keys() == plain.keys() | {"license", "license_name"} and sections.keys() == names.keys()
    assert head["language"] == [text, "fr"] and head["license_name"] == text and head["license"] == "other"
    corpus, licence = sections["Training text"].split("\n")[:2]
    assert corpus.removeprefix("- Corpus: ") == licence.removeprefix("- Licence: ")
    for shown in (corpus.removeprefix("- Corpus: "), sections["title"]):
        assert "\n" not in shown
        bare = re.sub(r"\\.", "", shown.removeprefix("# "))
        assert not set(bare) & set("\\`*_[]<>|~&$!@{}"), bare
    ast.parse(re.search("```python\n(.*?)\n```", sections["Use"], re.DOTALL)[1])


def test_a_licence_that_hugging_face_knows_is_named_as_there(run):
    head, sections = parts_of(write_model_card(with_settings(run, data__licence="CC BY 4.0"), "argos"))
    assert head["license"] == "cc-by-4.0" and "license_name" not in head
    assert "- Licence: CC BY 4.0" in sections["Training text"]


def test_the_settings_of_the_card_train_the_same_run(run):
    _, sections = parts_of(write_model_card(run, "saved_model"))
    settings = yaml.safe_load(re.search("```yaml\n(.*?)\n```", sections["Repeat it"], re.DOTALL)[1])
    assert RunConfig.model_validate(settings) == load_started_run(run.directory.config)
    for key in ("tokenizer_sha256", "model_sha256"):
        assert json.loads(run.directory.manifest.read_text(encoding="utf-8"))[key] in sections["Repeat it"]


def test_every_language_has_one_name():
    assert len(set(LANGUAGE_NAMES.values())) == len(LANGUAGE_NAMES) > 180
    assert all(re.fullmatch("[a-z]{2,3}", code) and name[0].isupper() for code, name in LANGUAGE_NAMES.items())
    assert [name_language(code) for code in ("de", "pt-BR", "zh_Hant", "EN", "xx", "")] == [
        *("German", "Portuguese (pt-BR)", "Chinese (zh_Hant)", "English", "xx", "")
    ]
