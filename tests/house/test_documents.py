"""What the README and the pages say is true: their commands, code, configs, links, and the paths that they name. Only
training gets options on top of those that are written, for a model that trains in seconds on a few lines."""

import functools
import importlib
import importlib.metadata
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import chdir, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from werkzeug.test import Client

from data.demo.lexicon import NOUNS
from qkv import __main__ as program
from qkv.attention.scores import SCORE_CLASSES
from qkv.commands.cli import file_to_write, folder_to_write, text_file
from qkv.commands.train import parse_train_arguments
from qkv.config import choices, load_run_config
from qkv.files.run_directory import RunDirectory
from qkv.inspection.experiments import changed_mechanism
from qkv.inspection.experiments.changed_mechanism import measure_changes
from qkv.live.service import TranslationRequest
from qkv.run import trained_run
from qkv.text.batch import forced_batch
from tests.support import ROOT
from tests.support.changed_pass import changed_table
from tests.support.documents import (
    BLOCKS,
    DATAFRAME,
    EXPERIMENTS,
    EXPORT,
    KERAS,
    PLUGINS,
    PYTHON,
    SURGERY,
    recipe,
    write_own_blocks,
)
from tests.support.journeys import Ended, run
from tests.support.minutes import by_hand, first_at_once
from tests.support.plugins import registrations_undone

pytestmark = pytest.mark.slow

README = ROOT / "README.md"
DOCS = ROOT / "docs"
MEASUREMENTS = sorted((DOCS / "measurements").glob("*.md"))
PAGES = [
    README,
    *sorted(ROOT.glob("C*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "data").rglob("*.md")),
    ROOT / "tests" / "README.md",
]
RUN_PAGES = [README, DOCS / "use" / "commands.md", PLUGINS, BLOCKS]
"""Pages whose commands run; on others they are only parsed."""
BUILD, OPUS, HOUR = (DOCS / "use" / f"{name}.md" for name in ("index", "opus", "hour"))
TALES = [BUILD, OPUS, HOUR]
"""Pages whose commands run one after the other, before their code."""
ANSWER = DOCS / "learn" / "attention.md"
VALUES = DOCS / "learn" / "values.md"
COMPARISONS = DOCS / "learn" / "elsewhere.md"
PRINTING_PAGES = [
    ANSWER,
    VALUES,
    COMPARISONS,
    DOCS / "learn" / "variants.md",
    DOCS / "use" / "layers.md",
    DOCS / "learn" / "spectra.md",
    DOCS / "learn" / "history.md",
]
"""Pages whose code prints exactly what stands below it."""
IN_A_TRAINED_MODEL = "\n## In a trained model\n"
TRAINED = {ANSWER: "\n## Heads, and what is added\n", VALUES: IN_A_TRAINED_MODEL, COMPARISONS: IN_A_TRAINED_MODEL}
"""The heading from which on a printing page needs the trained demo."""
NAMED = re.compile(r"`(qkv(?:\.\w+)+)")
FENCED = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def page_id(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    return [code for name, code in FENCED.findall(page.read_text(encoding="utf-8")) if name == language]


def prose(page):
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchor(heading):
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# Lengths, links and paths


def test_the_readme_is_a_door():
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("page", PAGES[1:], ids=page_id)
def test_lines_of_pages_fit(page):
    lines = [line for line in prose(page).splitlines() if not line.lstrip().startswith(("|", "!["))]
    assert max(map(len, lines)) <= 120


def links_of(text):
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_has_a_target(page):
    for target in links_of(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, fragment = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page_id(page)} links {target}"
        if fragment:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in map(anchor, headings), f"{page_id(page)} links {target}"


WITHOUT_HEADS = ("index.md", "extend/reference/")
"""Pages of `docs/` that do not begin with whom they are for: the first page, and the reference."""
HEAD = re.compile(r"\*\*For\*\* ([a-z][^*]+)\. \*\*At the end\*\* ([a-z][^*]+)")
HEADED = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if not re.match("|".join(map(re.escape, WITHOUT_HEADS)), page.relative_to(DOCS).as_posix())
]


@pytest.mark.parametrize("page", HEADED, ids=page_id)
def test_a_page_begins_with_whom_it_is_for_and_what_one_has_at_its_end(page):
    title, head = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert title.startswith("# ") and len(head.splitlines()) <= 3
    found = HEAD.fullmatch(" ".join(head.split()))
    assert found, "expected below the title: **For** whoever asks. **At the end** you have a thing."
    assert all(len(part.split()) > 3 for part in found.groups())


def test_common_questions_are_headings_that_a_search_finds():
    text = (DOCS / "use" / "commands.md").read_text(encoding="utf-8").split("\n## Questions\n")[1].split("\n## ")[0]
    questions = re.findall(r"^### (.*)$", text, re.MULTILINE)
    symptoms = (
        "BLEU",
        "<unk>",
        "NaN",
        "memory",
        "resume",
        "other settings",
        "GPU",
        "same sentence",
        "repeats",
        "short",
    )
    assert len(questions) >= 20
    assert [word for word in symptoms if not any(word in question for question in questions)] == []


def test_notebooks_and_modules_name_pages_that_exist():
    for notebook in (DOCS / "lessons").glob("*.ipynb"):
        for target in re.findall(r"\]\((\.\./[^)\s]+)\)", notebook.read_text(encoding="utf-8")):
            assert (notebook.parent / target).exists(), f"{notebook.name} links {target}"
    named = set()
    for folder in ("pipeline", "configs", "data", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yaml"):
                named |= set(re.findall(r"\bdocs/[\w/]+\.md", path.read_text(encoding="utf-8")))
    assert len(named) > 5
    for name in named:
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_id)
def test_paths_of_the_repository_exist(page):
    for path in re.findall(r"`((?:pipeline|tests|configs|docs)/[\w./]+)(?:`| )", prose(page)):
        assert (ROOT / path).exists(), f"{page_id(page)} names {path}"


def test_names_of_the_package_exist():
    named = {name for page in PAGES if page.name != "CHANGELOG.md" for name in NAMED.findall(prose(page))}
    assert len(named) > 2
    for name in named:
        pkgutil.resolve_name(name)


def test_results_are_those_that_the_configs_name():
    table = README.read_text(encoding="utf-8").split("## Results")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(configs/.*?)` \|.*?\| ([\d.]+) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) == 4
    for config, minutes, result in rows:
        header = (ROOT / config).read_text(encoding="utf-8").split("\ndata:")[0]
        for number in [f"{minutes} minutes", *re.findall(r"\d+\.\d+", result)]:
            assert number in header, f"{config} does not name {number}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_id)
def test_pages_name_things_instead_of_pointing_at_them(page):
    assert re.findall(r"\b(?:those|that) of\b|\bby which\b", prose(page)) == []


# Commands


def commands_of(page):
    """Those in blocks of shell commands, then those within the text and its tables."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    spans = re.findall(r"`((?:python|qkv [a-z_]+|make|pip|echo|tensorboard) [^`]+)`", prose(page))
    found = [re.split(r"\s+#\s", line.strip())[0] for line in lines] + [span.replace("\\|", "|") for span in spans]
    return list(dict.fromkeys(command for command in found if command))


COMMANDS = list(dict.fromkeys(command for page in RUN_PAGES for command in commands_of(page)))
COMMANDS += [command for command in commands_of(SURGERY) if "--plugins" in command]
RUN = re.compile(r"runs/(\w+)(?:/evaluations/(\w+)(?:/attention)?)?")
PAIRS = {"train": 150, "validation": 30, "test": 101}  # the first example shows sentence 100
PLUGIN = "from qkv.plugins import"
TINY = {
    "tokenizer.vocabulary_size": "90",
    "batches.batch_tokens": "1500",
    "batches.length_multiple": "16",
    "model.d_model": "8",
    "model.num_heads": "4",
    "model.d_ff": "8",
    "model.encoder_layers": "1",
    "model.decoder_layers": "1",
    "training.precision": "float32",
    "training.max_updates": "2",
    "training.warmup_updates": "1",
    "training.validate_every_updates": "1",
    "decoding.max_target_extra": "4",
    "decoding.max_target_ratio": "0.2",
    "inspection.probes": "[{source: the cat sees the dog ., reference: le chat voit le chien .}]",
}


HELD_OUT = {"data.validation.pairs": "20", "data.test.pairs": "20"}
"""For a config that holds out more pairs than `PAIRS` has."""


class Folder:
    """A folder like the repository's root, in which commands run within this process."""

    def __init__(self, root):
        self.root, self.empty = root, root / "empty"
        self.ended = {}
        self.empty.mkdir()
        (root / "configs").symlink_to(ROOT / "configs")
        (root / "requirements.txt").symlink_to(ROOT / "requirements.txt")
        (root / "opus-mt-en-fr").symlink_to(ROOT / "tests" / "exchange" / "golden" / "marian")
        for name, pairs in PAIRS.items():
            for suffix in ("en", "fr", "align"):
                text = (ROOT / f"data/demo/{name}.{suffix}").read_text(encoding="utf-8").split("\n")[:pairs]
                self.write(f"data/demo/{name}.{suffix}", text)
                self.write(f"my.{suffix}", text[:5])
        sides = [
            (root / f"data/demo/train.{suffix}").read_text(encoding="utf-8").split("\n")[:-1] for suffix in ("en", "fr")
        ]
        self.write("my/pairs.tsv", ["\t".join(pair) for pair in zip(*sides, strict=True)])
        self.write("my_score.py", [code for code in blocks(PLUGINS, "python") if "register_score" in code])
        write_own_blocks(root / "my_blocks.py")
        self.write("one_matrix.py", [code for code in blocks(SURGERY, "python") if PLUGIN in code])

    def write(self, name, lines):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(self, command):
        """Runs a command with all that it needs, and returns what the last one of a pipe left."""
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>")
        lexer.whitespace_split = True
        ended, words = Ended(0, "", ""), [*lexer, "|"]
        while words:
            end = words.index("|")
            part, words = words[:end], words[end + 1 :]
            given, target = ended.stdout, None
            while len(part) > 2 and part[-2] in ("<", ">"):
                *part, sign, name = part
                given, target = ((self.root / name).read_text("utf-8"), target) if sign == "<" else (given, name)
            ended = self.run_one(part, given)
            if target:
                (self.root / target).write_text(ended.stdout, "utf-8")
        return ended

    def run_one(self, words, given):
        program, *arguments = words
        if program == "qkv" or (program == "python" and arguments[0] in ("train.py", "evaluate.py")):
            return self.run_main(arguments, given)
        if program == "python":
            subprocess.run([sys.executable, ROOT / arguments[0], *arguments[1:], "--help"], check=True)  # it downloads
        elif program in ("mkdir", "shuf"):
            done = subprocess.run(words, cwd=self.root, check=True, capture_output=True, encoding="utf-8")
            return Ended(0, done.stdout, done.stderr)
        elif program == "cp":
            (self.root / arguments[1]).write_bytes((self.root / arguments[0]).read_bytes())
        elif program == "make":
            subprocess.run(["make", "-n", "-C", str(ROOT), *arguments], check=True, capture_output=True)
        elif program == "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            known = ["-r requirements.txt", ".", *(f".[{name}]" for name in extras)]
            assert " ".join(arguments[1:]) in known  # test_installed_package.py installs the package itself
        elif program == "tensorboard":
            assert importlib.metadata.entry_points(group="console_scripts", name="tensorboard")
            assert arguments == ["--logdir", "runs"]
        else:
            assert program == "echo"
            return Ended(0, " ".join([*arguments, "\n"]), "")
        return Ended(0, "", "")

    def run_main(self, arguments, given):
        """Calls a command's `main` with its arguments, in this folder."""
        name, rest = arguments[0].removesuffix(".py"), arguments[1:]
        if name == "live" and "--page" not in rest:  # it would serve until it is interrupted
            self.make_runs(name, rest)
            with chdir(self.root):
                importlib.import_module("qkv.commands.live").make_parser().parse_args(rest)
            return Ended(0, "", "")
        if name != "import_marian":
            self.make_runs(name, rest)
        tiny = self.tiny_settings(rest) if "--config" in rest or name == "doctor" else {}
        options = [f"--{key}={value}" for key, value in tiny.items() if f"--{key}" not in rest]
        of_package = rest == [] or "demo" in rest  # in a folder of its own, for its results go to runs/demo
        ended = run(self.empty if of_package else self.root, "-m", "qkv", name, *rest, *options, given=given)
        self.ended[name, *rest] = ended
        return ended

    def tiny_settings(self, arguments):
        """`TINY`, without the sizes of a model that the config takes from another run."""
        config = arguments[arguments.index("--config") + 1] if "--config" in arguments else arguments[0]
        if "start_from: " not in (self.root / config).read_text(encoding="utf-8"):
            return TINY
        sizes = ("model.", "tokenizer.")
        return {key: value for key, value in TINY.items() if not key.startswith(sizes)} | HELD_OUT

    def what_it_left(self, command):
        """What a command left that has run already, or leaves now."""
        words = tuple(command.removeprefix("python ").removeprefix("qkv ").replace(".py", "", 1).split())
        return self.ended.get(words) or self.run(command)

    def make_runs(self, command, arguments):
        """Trains and evaluates what a command reads, as the pages say."""
        for place in filter(None, map(RUN.fullmatch, arguments)):
            name, evaluation = place.groups()
            if not (self.root / "runs" / name / "model.keras").exists():
                self.run(training_command(name))
            shows = command in ("view", "draw", "compare", "measure") and "--over_training" not in arguments
            if shows and not (self.root / "runs" / name / "evaluations" / (evaluation or "test")).exists():
                assert evaluation in (None, "test")
                self.run(f"python evaluate.py runs/{name}")


def run_name(arguments):
    named = arguments[arguments.index("--run.name") + 1] if "--run.name" in arguments else None
    return named or Path(arguments[arguments.index("--config") + 1]).stem


def training_command(run):
    """The command of the pages, or of `make demo`, that trains a run."""
    demo = re.findall(r"\$\(BIN\)/(python train\.py [^;\n]+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    for command in [*demo, *COMMANDS]:
        words = command.split()
        if words[:2] == ["python", "train.py"] and "--config" in words and run_name(words) == run:
            return command
    raise AssertionError(f"no page trains runs/{run}")


@pytest.fixture(scope="module")
def folder(loaded_once, tmp_path_factory):
    with registrations_undone():
        yield Folder(tmp_path_factory.mktemp("readme"))


def test_there_are_commands_of_every_kind():
    words = {word for page in PAGES for command in commands_of(page) for word in command.split()}
    assert words >= set(program.COMMANDS) - {"train", "evaluate"} | {"train.py", "evaluate.py"}


@pytest.mark.minutes
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_runs_as_it_is_written(command, folder):
    if "--format saved_model" in command:
        pytest.importorskip("tensorflow_text")
    if "qkv completion" in command:
        pytest.importorskip("shtab")
    folder.run(command)


@pytest.mark.minutes
def test_the_code_of_the_page_on_exports_translates_and_aligns(folder, monkeypatch, capsys):
    pytest.importorskip("tensorflow_text")
    (command,) = [command for command in COMMANDS if command.startswith("qkv export ")]
    if not (folder.root / "export").exists():
        folder.run(command)
    monkeypatch.chdir(folder.root)
    exec(recipe("tf.saved_model.load", EXPORT), found := {})
    assert "(2, 1, 4, " in capsys.readouterr().out and found["links"].shape[0] == 1


@pytest.mark.minutes
def test_next_steps_that_commands_print_work(folder):
    folder.make_runs("", ["runs/demo"])
    steps = next_steps(folder.what_it_left(training_command("demo")))
    assert steps == ["qkv evaluate runs/demo", "tensorboard --logdir runs"]
    looks = next_steps(folder.what_it_left(steps[0]))
    assert looks == ["open runs/demo/evaluations/test/viewer.html in a browser", "tensorboard --logdir runs"]
    assert (folder.root / looks[0].split()[1]).is_file()
    folder.run(looks[1])


# Not of the text those that name an option alone, or a choice.
OTHER_COMMANDS = [
    command
    for page in PAGES
    if page not in [*RUN_PAGES, *TALES, *MEASUREMENTS]
    for command in commands_of(page)
    if command.startswith(("python ", "qkv ", "make ")) and not re.search(r"^qkv \w+ --| \| ", command)
    if command not in COMMANDS
]


CHECKED = (text_file, file_to_write, folder_to_write)


@pytest.mark.parametrize("command", OTHER_COMMANDS)
def test_commands_of_the_other_pages_are_understood(command, folder, monkeypatch):
    monkeypatch.chdir(folder.root)
    program, *arguments = shlex.split(re.split(" [<>] ", command)[0])
    if program == "make":
        folder.run(command)
    elif program == "qkv" or arguments[0] == "-m":
        name, *rest = [f"qkv.commands.{arguments[0]}", *arguments[1:]] if program == "qkv" else arguments[1:]
        monkeypatch.setattr("qkv.files.run_directory.RunDirectory.open", RunDirectory)  # these are not made here
        module = importlib.import_module(name)
        if hasattr(module, "make_parser"):
            parser = module.make_parser()
            for action in parser._actions:  # nor are the files that they name
                action.type = Path if action.type in CHECKED else action.type
            parser.parse_args(rest)
    elif arguments[0] == "train.py" and "--config" in arguments:
        parse_train_arguments(arguments[1:])
    else:
        assert (ROOT / arguments[0]).is_file()


@pytest.mark.parametrize("page", MEASUREMENTS, ids=page_id)
def test_programs_that_measured_exist(page):
    for name in re.findall(r"python\s-m\s(tests\.[\w.]+)", page.read_text(encoding="utf-8")):
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name


def next_steps(ended):
    (steps,) = re.findall(r"next:\n((?:  .*\n?)+)", ended.stdout + ended.stderr)
    return [step.strip() for step in steps.splitlines()]


def tell(page, folder):
    """Runs the blocks of shell commands of a page in their order. Returns what each command left."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return {line: folder.run(line) for line in (re.split(r"\s+#\s", line)[0].strip() for line in lines)}


@pytest.fixture
def empty_folder(loaded_once, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


@pytest.mark.minutes
def test_the_way_of_build_ends_in_a_service_that_answers(empty_folder):
    empty_folder.write("my.yaml", blocks(BUILD, "yaml"))
    ended = tell(BUILD, empty_folder)
    assert len(ended) == 5 and all(command.status == 0 for command in ended.values())
    for left in ("evaluations/test/viewer.html", "corpus_report.json"):
        assert (empty_folder.root / "runs/my" / left).is_file()
    shown = {line.split()[0] for line in blocks(BUILD, "text")[0].splitlines()} - {"vocabulary"}
    assert shown <= {line.split()[0] for line in ended["qkv doctor my.yaml --write my.yaml"].stdout.splitlines()}
    exec(compile(blocks(BUILD, "python")[0], str(BUILD), "exec"), names := {"__name__": "service"})
    sent = re.search(r"^curl -H \"(\S+): (\S+)\" -d '(.*)' http", blocks(BUILD, "text")[1], re.MULTILINE)
    answer = Client(names["application"]).post("/", headers=[sent.groups()[:2]], data=sent[3])
    assert answer.status_code == 200 and {*answer.json} == {"translation", "log_probability"}
    assert answer.json["translation"] == names["run"].translate(json.loads(sent[3])["text"]).text


@pytest.mark.minutes
def test_the_hour_ends_in_a_service_that_keeps_tags(empty_folder):
    pytest.importorskip("sentencex")
    texts = [(ROOT / f"data/demo/train.{suffix}").read_text("utf-8").splitlines()[:400] for suffix in ("en", "fr")]
    empty_folder.write("data/manythings/fra.txt", ["\t".join(pair) for pair in zip(*texts, strict=True)])
    (config,), (page,) = blocks(HOUR, "yaml"), blocks(HOUR, "html")
    fewer = config.replace("validation: {pairs: 1000}", "validation: {pairs: 100}")  # as few as fit a confidence
    empty_folder.write("my.yaml", [fewer.replace("test: {pairs: 1000}", "test: {pairs: 20}")])
    empty_folder.write("page.html", [page])
    ended = tell(HOUR, empty_folder)
    assert len(ended) == 11 and all(command.status == 0 for command in ended.values())
    assert len((empty_folder.root / "my/pairs.align").read_text("utf-8").splitlines()) == 400
    (marked,) = [command.stdout for line, command in ended.items() if line.endswith("--markup html")]
    assert marked.count("<b>") == marked.count("</b>") == 1
    (rated,) = [command.stdout for line, command in ended.items() if line.endswith("--confidence")]
    assert 0 <= float(rated.split("\t")[0]) <= 1
    translated = (empty_folder.root / "page.fr.html").read_text("utf-8")
    assert re.findall(r"</?\w+", translated) == re.findall(r"</?\w+", page)
    assert 'href="https://example.org/cheap"' in translated
    (fields,) = [dict(field.split("=", 1) for field in curl_fields(block)) for block in blocks(HOUR, "text")]
    asked = TranslationRequest.read(fields)
    assert (asked.texts, asked.format) == ([fields["q"]], "html")


def curl_fields(line):
    """The fields of a form that a line with curl sends."""
    words = shlex.split(line)
    return [value for option, value in pairwise(words) if option == "-d"]


@pytest.mark.minutes
def test_a_ready_model_is_trained_further_compared_and_taken_back(empty_folder, capsys):
    (config,) = blocks(OPUS, "yaml")
    assert yaml.safe_load(config) == yaml.safe_load((ROOT / "configs" / "opus.yaml").read_text(encoding="utf-8"))
    empty_folder.write("domain.yaml", [config])
    ended = tell(OPUS, empty_folder)
    assert len(ended) == 9 and all(command.status == 0 for command in ended.values())
    (compared,) = [command.stdout for line, command in ended.items() if line.startswith("qkv compare")]
    assert "20 sentences" in compared and "runs/domain/evaluations/test" in compared
    taken_back, from_python = blocks(OPUS, "python")
    exec(compile(taken_back, str(OPUS), "exec"), {})
    tiny = {"run.name": "python", **HELD_OUT, "training.max_updates": 2, "training.warmup_updates": 1}
    start, end = '{"run.name": "domain_in_python", "training.max_updates": 200}', str(tiny)
    assert start in from_python
    exec(compile(from_python.replace(start, end), str(OPUS), "exec"), names := {})
    assert names["run"].model.count_params() == 10_721


@pytest.mark.minutes
def test_the_contract_can_be_checked_of_an_own_score(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_score.py").write_text(next(code for code in blocks(PLUGINS, "python") if "register_score" in code))
    (code,) = blocks(DOCS / "extend" / "index.md", "python")
    with registrations_undone():
        for table in (SCORE_CLASSES, choices.model.SCORE_INFO):  # a command of the pages may have registered it
            table.pop("sharp", None)
        exec(compile(code, "extend/index.md", "exec"), names := {"__name__": "test_my_score"})
        checked = 0
        for name, test in names.items():
            if name.startswith("test_"):
                (mark,) = test.pytestmark
                for check in mark.args[1]:
                    test(check)
                    checked += 1
    del sys.modules["my_score"]
    assert checked == 2 * len(names["LAYER_CHECKS"]) + len(names["ATTENTION_CHECKS"])


@pytest.mark.minutes
def test_the_demo_prints_what_the_readme_shows(folder):
    ended = folder.what_it_left("python evaluate.py runs/demo")
    printed = [*ended.stdout.splitlines(), *ended.stderr.splitlines()]

    def label(line):
        return re.split(r" {2,}", line.strip())[0]

    for line in blocks(README, "text")[0].splitlines():
        assert label(line) in map(label, printed), line


@pytest.mark.minutes
def test_evaluating_leaves_the_files_of_the_table(folder):
    folder.make_runs("view", ["runs/demo"])
    page = (DOCS / "use" / "evaluation.md").read_text(encoding="utf-8")
    table = page.split("## What an evaluation leaves")[1].split("\n## ")[0]
    for name in re.findall(r"`([\w.]+/?)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))):
        if not name.startswith(("perturbation", "faithfulness")):  # only with --perturb and --faithfulness
            assert (folder.root / "runs/demo/evaluations/test" / name).exists(), name


# Code and configs


def examples(text):
    """Yields each block of Python with the block of text that follows it, or with nothing."""
    found = [block for block in FENCED.findall(text) if block[0] in ("python", "text")]
    for (kind, code), (next_kind, printed) in zip(found, [*found[1:], ("python", "")], strict=True):
        if kind == "python":
            yield code, printed if next_kind == "text" else ""


def without_the_demo(page):
    """The text of a printing page up to the part that needs the trained demo."""
    text = page.read_text(encoding="utf-8")
    return text.split(TRAINED[page])[0] if page in TRAINED else text


def with_the_demo(page):
    """The other part."""
    return page.read_text(encoding="utf-8").split(TRAINED[page])[1]


@pytest.mark.parametrize("page", first_at_once(PRINTING_PAGES[::-1], map(page_id, PRINTING_PAGES[::-1])))
def test_every_block_prints_what_stands_below_it(page, capsys):
    names: dict = {}
    text = page.read_text(encoding="utf-8")
    assert len(list(examples(text))) >= 2
    with np.printoptions():  # what the page sets is set back
        for code, expected in examples(without_the_demo(page)):
            exec(compile(code, str(page), "exec"), names)
            assert capsys.readouterr().out == expected, code


def needs_the_demo(test):
    """`.ci/run` makes it before these."""
    missing = not (ROOT / "runs/demo/manifest.json").is_file()
    return pytest.mark.minutes(pytest.mark.skipif(missing, reason="needs the trained demo")(test))


def test_the_picture_of_the_answer_has_the_numbers_that_its_code_prints():
    """The picture follows the row of "visits": words, keys, products, scores, weights and values."""
    names: dict = {}
    with redirect_stdout(StringIO()):
        exec(blocks(ANSWER, "python")[0], names)
    x, q, k, v = (names[name] for name in ("x", "q", "k", "v"))
    scores, weights, context = (names[name] for name in ("scores", "weights", "context"))
    row = 1
    expected = [x[row], q[row]]
    for word in range(3):
        product = q[row] @ k[word]
        expected += [x[word], k[word], [product], [scores[row, word]], [weights[row, word]], v[word]]
    expected.append(context[row])
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", ANSWER.with_suffix(".svg").read_text(encoding="utf-8"))
    shown = [text.replace("−", "-").replace("&#160;", " ").split() for text in texts]
    shown = [[float(number) for number in text] for text in shown if re.fullmatch(r"[-\d. ]+", " ".join(text))]
    # Weights have a digit more, so that the sum of weights times values can be checked with a pencil.
    assert shown == [
        [round(float(number), 2 + (len(numbers) == 1 and 0 < numbers[0] < 1)) for number in numbers]
        for numbers in expected
    ]


def test_the_answer_takes_ten_minutes():
    """At 200 words a minute; code and tables are included, signs that stand alone are no words."""
    words = [word for word in ANSWER.read_text(encoding="utf-8").split() if re.search(r"\w", word)]
    assert len(words) <= 2000


@needs_the_demo
def test_the_trained_demo_prints_what_the_answer_shows(capsys, monkeypatch):
    """Another processor trains other weights, so numbers and heads may differ, but not what they show."""
    monkeypatch.chdir(ROOT)
    layers, pronouns = examples(with_the_demo(ANSWER))
    names: dict = {}
    exec(compile(layers[0], str(ANSWER), "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    one, other, third, fourth = (re.sub(r", with .*", "", line) for line in lines)
    assert [line.split()[-1] for line in lines] == [line.split()[-1] for line in layers[1].splitlines()]
    assert one == other and third != fourth
    exec(compile(pronouns[0], str(ANSWER), "exec"), names)
    for line, noun in zip(capsys.readouterr().out.splitlines(), ("box", "book"), strict=True):
        assert f"▁{noun} 0." in line


@needs_the_demo
def test_values_of_the_trained_demo_say_what_the_page_says(capsys, monkeypatch):
    """Another processor trains other weights, so a word may differ, and a share by some percent."""
    monkeypatch.chdir(ROOT)
    translations, shares = examples(with_the_demo(VALUES))
    names: dict = {}
    exec(compile("import numpy as np\n" + translations[0], str(VALUES), "exec"), names)
    printed, shown = (text.splitlines() for text in (capsys.readouterr().out, translations[1]))
    assert len(printed) == len(shown)
    assert sum(line == other for line, other in zip(printed, shown, strict=True)) >= len(shown) - 4
    exec(compile(shares[0], str(VALUES), "exec"), names)
    before, context, both, after = (int(line.split()[-1][:-1]) for line in capsys.readouterr().out.splitlines())
    expected = [int(line.split()[-1][:-1]) for line in shares[1].splitlines()]
    np.testing.assert_allclose([before, context, both, after], expected, atol=15)
    assert before < min(context, both, after)


@needs_the_demo
def test_nouns_of_the_trained_demo_lie_near_nouns_of_the_same_french_gender(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    ((code, shown),) = examples(with_the_demo(COMPARISONS))
    names: dict = {"np": np}
    exec(compile(code, str(COMPARISONS), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == [line.split()[0] for line in shown.splitlines()]

    tokens, directions = names["tokens"], names["directions"]
    genders = {f"▁{name}": noun.gender for name, noun in NOUNS.items() if f"▁{name}" in tokens}
    vectors, gender = directions[[tokens.index(noun) for noun in genders]], np.array(list(genders.values()))
    likeness = vectors @ vectors.T - 2 * np.eye(len(vectors))  # not to itself
    same = gender[np.argsort(-likeness)[:, :6]] == gender[:, None]
    assert len(genders) == 70 and same.mean() > 0.85


load_demo_once = functools.cache(trained_run.load_run)


def explained(capsys, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trained_run, "load_run", load_demo_once)
        assert program.main(["explain", str(ROOT / "runs/demo"), *arguments]) == 0
    return capsys.readouterr().out


@needs_the_demo
def test_changes_cost_the_trained_demo_what_the_pages_say(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(changed_mechanism, "DRAWS", 1)
    line = re.compile(r"^ {2,4}(\S.*?) +([0-9.]+)%", re.MULTILINE)
    found = dict(line.findall(explained(capsys, "--change")))
    shown = dict(re.findall(r"^\| (?:\*\*|– )(.*?)(?:\*\*)? \| ([0-9.]+) \[", SURGERY.read_text("utf-8"), re.MULTILINE))
    assert list(found) == list(shown)
    of_the_first_page = line.findall(PRINTING_PAGES[0].read_text(encoding="utf-8"))
    for name, share in [*shown.items(), *of_the_first_page]:
        assert float(found[name]) == pytest.approx(float(share), abs=15), name
    assert min(float(found["as it is"]), float(found["one-hot"])) > 98


@by_hand  # test_changed_mechanism.py compares the table of a smaller model
@needs_the_demo
def test_numpy_computes_the_changes_of_the_trained_demo():
    loaded = load_demo_once(ROOT / "runs/demo")
    sides = ((ROOT / f"data/demo/test.{side}").read_text("utf-8").splitlines()[:8] for side in ("en", "fr"))
    batch = forced_batch(list(zip(*map(loaded.tokenizer.encode, sides), strict=True))).ids
    table = measure_changes(loaded.model, [batch], draws=2).drop(columns="meaning").set_index(["change", "control"])
    expected = changed_table(loaded.model, [batch], draws=2)
    assert list(table.index) == list(expected.index)
    tokens = table["tokens"].iloc[0]
    np.testing.assert_allclose(table.to_numpy(float), expected.to_numpy(float), atol=1.01 / tokens)


@needs_the_demo
def test_heads_of_the_trained_demo_lead_a_pronoun_to_its_noun(capsys):
    printed = explained(capsys, "--pronouns", str(ROOT / "data/demo/pronouns.tsv"))
    (points, *_) = map(int, re.findall(r"head \d: +(\d+)", printed))
    whole, without, others = map(float, re.findall(r"^  (0\.\d+)  with", printed, re.MULTILINE))
    assert points > 40
    assert without < others - 0.05 and others == pytest.approx(whole, abs=0.1)


@needs_the_demo
def test_the_trained_demo_reads_the_apple_where_it_writes_pomme(capsys):
    arguments = "--sentence", "the boy eats an apple .", "--target", "le garçon mange une pomme .", "--token", "pomme"
    for head in range(4):
        printed = explained(capsys, *arguments, "--head", str(head))
        weight = re.search(r"▁apple +\S+ +\S+ +(\S+)", printed)
        assert weight and float(weight[1]) > 0.5, head
    bars = re.findall(r"(\S+) +(#+)$", printed, re.MULTILINE)
    assert max(bars, key=lambda bar: len(bar[1]))[0] == "▁apple"


ELSEWHERE = [
    *PRINTING_PAGES,
    *TALES,
    *DOCS.glob("research/*.md"),
    DOCS / "extend" / "index.md",
    BLOCKS,
    DATAFRAME,
    EXPERIMENTS,
    EXPORT,
    PYTHON,
]
"""Pages whose code has tests of its own."""


@pytest.mark.minutes
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # of Keras, before it converts
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page_id(page), marks=[pytest.mark.minutes] * (page == KERAS))
        for page in PAGES
        if blocks(page, "python") and page not in ELSEWHERE
    ],
)
def test_python_runs_as_it_is_written(page, folder, monkeypatch, capsys):
    folder.make_runs("view", ["runs/demo"])
    monkeypatch.chdir(folder.root)
    names: dict = {}
    with np.printoptions():  # what a page sets is set back
        for code in blocks(page, "python"):
            if PLUGIN in code or ("onnx" in code and find_spec("tf2onnx") is None):  # a file that commands load
                continue
            exec(compile(code, str(page), "exec"), names)


@pytest.mark.minutes
def test_the_first_example_prints_what_stands_below_it_but_for_the_numbers(folder, monkeypatch, capsys):
    folder.make_runs("view", ["runs/demo"])
    monkeypatch.chdir(folder.root)
    exec(blocks(README, "python")[0], {})
    printed = capsys.readouterr().out.splitlines()
    shown = blocks(README, "text")[1].splitlines()
    assert printed[0] == shown[0]
    assert shown[1] == (ROOT / "data/demo/test.fr").read_text(encoding="utf-8").splitlines()[100]
    rows = [line.split() for line in shown[2:]]
    assert [len(row) for row in rows[1:]] == [len(rows[0]) + 1] * len(rows[1:])
    weights = np.array([row[1:] for row in rows[1:]], float)
    np.testing.assert_allclose(weights.sum(1), 1, atol=0.005 * weights.shape[1])
    assert [row[0] for row in rows[1:]] == [f"▁{word}" for word in shown[1].split()] + ["</s>"]
    assert rows[0] == [f"▁{word}" for word in shown[0].split()] + ["</s>"]
    printed_rows = [line.split() for line in printed[2:]]
    assert all(len(row) == len(printed_rows[0]) + 1 for row in printed_rows[1:])


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=page_id)
def test_configs_are_read_as_they_are_written(page, tmp_path):
    for text in blocks(page, "yaml"):
        path = tmp_path / "config.yaml"
        path.write_text(text if "validation:" in text else completed(text), encoding="utf-8")
        load_run_config(path)


def completed(text):
    """An excerpt of a config, with what it leaves out."""
    head = "data:\n  source_language: en\n  target_language: de\n  validation: {source: a.en, target: a.de}\n"
    return text.replace("data:\n", head).replace("training:\n", "training:\n  max_minutes: 1\n")
