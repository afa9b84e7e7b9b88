"""The package as others install it: a wheel beside nothing else, and a clone that is not installed."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from qkv.__main__ import COMMANDS
from qkv.version import __version__
from tests.support import KEPT_RUNS, ROOT, files_below
from tests.support.documents import BLOCKS, DATAFRAME, EXPERIMENTS, KERAS, PYTHON, blocks_of, write_own_blocks
from tests.support.minutes import by_hand
from tests.support.tiny_runs import write_small_corpus

PACKAGE = ROOT / "pipeline" / "qkv"

pytestmark = [pytest.mark.minutes, pytest.mark.slow]  # builds a wheel, and starts processes


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / "pipeline" / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]  # it builds a wheel and installs it
    install = ["install", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile", "--target"]
    subprocess.run([*pip, *install, folder / "site", source], check=True)
    return folder / "site"


def run(site, *command, **settings):
    """What a command prints in a folder that holds nothing of ours."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    words, settings = [sys.executable, *command], {"cwd": site.parent, **settings}
    return subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=True, **settings).stdout


def test_layers_and_the_archive_are_imported_from_the_wheel_and_a_run_translates(site):
    """From any folder, with a run of the repository, which the installed package reads as well."""
    code = """
import sys
import qkv
from qkv.__main__ import main
from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention, padding_mask
from qkv.config import load_run_config
from qkv.inspection import AttentionArchive, Sentence, write_archive
from qkv.inspection.archive_export import bertviz_arguments, write_inseq, write_soft_alignments
from qkv.run import train
print(qkv.__file__, flush=True)
print(qkv.load("demo").translate("the girl does not like the juice ."), flush=True)
sys.exit(main(["translate", sys.argv[1]]))
"""
    said = run(site, "-c", code, KEPT_RUNS / "transformer", input="the cat\na dog\n").splitlines()
    assert said[:2] == [str(site / "qkv" / "__init__.py"), "la fille n' aime pas le jus ."]
    assert len(said) == 4


def test_the_demo_is_in_the_wheel_which_stays_small(site):
    assert files_below(site / "qkv" / "demo") == files_below(PACKAGE / "demo")
    content = b"".join(files_below(site / "qkv").values())
    assert len(zlib.compress(content)) < 3_000_000


def test_every_command_runs(site):
    code = """
import contextlib, sys
from qkv.__main__ import main
for command in sys.argv[1:]:
    with contextlib.suppress(SystemExit):
        main([command, "--help"])
"""
    said = run(site, "-c", code, *COMMANDS)
    assert [line.split()[2] for line in said.splitlines() if line.startswith("usage: qkv ")] == [*COMMANDS]


EVALUATE = """
import sys
import evaluate
from qkv.evaluation import resumable
resumable.SENTENCES_PER_CHUNK = 4
if __name__ == "__main__":
    for workers in "12":
        options = ["--name", f"by {workers}", "--beam_size", "1", "--workers", workers]
        assert evaluate.main(["run", "--source", "data/demo/test.en", *options]) == 0
"""


def test_a_clone_that_is_not_installed_evaluates_to_the_same_bytes_in_several_processes(tmp_path):
    """Its own files are used, also by the processes that share the work, whatever is installed."""
    package = shutil.copytree(PACKAGE, tmp_path / "pipeline" / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
    with (package / "run" / "processes.py").open("a", encoding="utf-8") as file:
        file.write("import os\nopen(f'used {os.getpid()}', 'w').close()\n")
    shutil.copytree(KEPT_RUNS / "transformer", tmp_path / "run")
    write_small_corpus(tmp_path / "data" / "demo")
    for name in ("train.py", "evaluate.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "both.py").write_text(EVALUATE, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import runpy; runpy.run_path('train.py'); import qkv; print(qkv.__file__)"
    for words in (["both.py"], ["-c", code]):
        command = [sys.executable, *words]
        said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(said.strip()) == package / "__init__.py"
    assert len(list(tmp_path.glob("used *"))) >= 3
    alone, spread_over = (tmp_path / "run" / "evaluations" / f"by {workers}" for workers in "12")
    for name in ("translations.tsv", "attention/sentences.jsonl", "attention/shard-00000.npz", "heads.csv"):
        assert filecmp.cmp(alone / name, spread_over / name, shallow=False), name


def test_qkv_says_its_version(site):
    assert run(site, site / "bin" / "qkv", "--version") == f"qkv {__version__}\n"


def test_the_page_comes_with_its_scripts(site):
    files = {path.relative_to(PACKAGE) for suffix in ("html", "css", "js") for path in PACKAGE.rglob(f"*.{suffix}")}
    assert len(files) > 20 and all((site / "qkv" / file).is_file() for file in files)


def test_every_folder_of_the_package_is_installed(site):
    own = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")}
    assert {path.relative_to(site / "qkv") for path in (site / "qkv").rglob("__init__.py")} == own


UNOPTIMISED = """
from qkv.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    import tensorflow as tf
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # graphs run once or twice
"""


needs_the_demo = pytest.mark.skipif(not (ROOT / "runs/demo/manifest.json").is_file(), reason="needs the trained demo")


def test_the_examples_of_the_page_on_python_are_short():
    examples = blocks_of(PYTHON)
    assert len(examples) >= 13
    assert all(code.count("\n") <= 5 for code in examples)


PAGES = [[PYTHON, DATAFRAME, EXPERIMENTS], pytest.param([BLOCKS, KERAS], marks=by_hand)]


@needs_the_demo
@pytest.mark.parametrize("pages", PAGES, ids=lambda pages: " ".join(page.stem for page in pages))
def test_the_examples_of_pages_run_from_a_wheel(site, tmp_path, pages):
    """With the demo, and nothing of the clone on Python's path. One process, which imports TensorFlow once, runs each
    page in a folder of its own."""
    texts = "".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    assert all(texts.count(text) == 1 for text, page in IN_PAGES.items() if page in pages)
    folders = [write_examples(page, tmp_path / page.stem) for page in pages]
    (tmp_path / "pages.py").write_text(RUN_PAGES, encoding="utf-8")
    *lines, package = run(site, tmp_path / "pages.py", *folders).splitlines()
    assert package == str(site / "qkv" / "__init__.py")
    assert [line for line in lines if line.startswith("== ")] == [f"== {folder}" for folder in folders]
    if PYTHON in pages:
        assert lines[1] == "le chat dort ."
        assert (tmp_path / PYTHON.stem / "demo_saved_model" / "manifest.json").is_file()


RUN_PAGES = f"""{UNOPTIMISED}
import os
import runpy
import sys

for folder in sys.argv[1:]:
    os.chdir(folder)
    sys.path.insert(0, folder)
    print(f"== {{folder}}")
    runpy.run_path("examples.py", run_name="__main__")

import qkv

print(qkv.__file__)
"""

TRAINED_BY_THE_COMMAND = """qkv.train(
    "configs/demo.yaml",
    {"run.name": "gated", "model.architecture": "gated", "training.max_updates": 3, "training.warmup_updates": 2},
)"""

FASTER = {
    '{"max_updates": 200}': '{"max_updates": 20, "warmup_updates": 5}',
    '"training.max_minutes": 2': '"training.max_updates": 3, "model.d_model": 16',
    "shuffle=False": "shuffle=False, steps_per_epoch=2",
    'run.export("saved_model", "frame_saved_model")': 'run.export("ctranslate2", "frame_ctranslate2")',
}
"""What the examples train less, by their text, and an export that takes half the time: the other page has its like."""
IN_PAGES = {'{"max_updates": 200}': PYTHON, '"training.max_minutes": 2': DATAFRAME, "frame_saved_model": DATAFRAME}


def write_examples(page, folder):
    """Fills a folder with demo, text, configs and `examples.py`, the code of a page, and returns it."""
    examples = [code for code in blocks_of(page) if "onnx" not in code or find_spec("tf2onnx")]
    assert len(examples) >= 3
    for folder_name in ("runs/demo", "data/demo", "configs"):
        unneeded = shutil.ignore_patterns("*tfevents*", "checkpoints", "evaluations")
        shutil.copytree(ROOT / folder_name, folder / folder_name, ignore=unneeded)
    for file in (folder / "data" / "demo").glob("t*[.][aef]*"):  # the first sentences are enough
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(lines[: 1000 if "train" in file.name else 20]), encoding="utf-8")
    if page == BLOCKS:
        write_own_blocks(folder / "my_blocks.py")
        *_, fitted, loaded = examples
        examples = ["import qkv", fitted, TRAINED_BY_THE_COMMAND, loaded]
    code = "\n".join(examples)
    for text, faster in FASTER.items():
        code = code.replace(text, faster)
    (folder / "examples.py").write_text(code, encoding="utf-8")
    return folder


SCRIPT = (ROOT / "tests" / "support" / "typed_script.py").read_text(encoding="utf-8")
MISTAKES = {
    'checkpoint="last"': "checkpoint=3",
    'run.translate("a")': "run.translate(5)",
    '"a", n_best=2': '"a", n_best="2"',
    '["a"], split=True': '["a"], n_best=2, split=True',
    'run.align("a", "b")': 'run.align("a", ["b"])',
    'run.evaluate("test",': "run.evaluate(5,",
    "first_index=1": 'first_index="1"',
    '["*.scores"]': "[5]",
    "head=0, row=1": 'head="0", row=1',
    'quantization="int8"': "quantization=8",
    '{"model.d_model": 64, "training": {"max_updates": 2}}': '"model.d_model"',
    'split="validation"': "split=3",
    'positions="rotary", return_weights=False': 'positions="rotated", return_weights=False',
    "qkv.CrossAttention(num_heads=2": 'qkv.CrossAttention(num_heads="2"',
    "qkv.Transformer(100, d_model=32": 'qkv.Transformer(100, d_model="32"',
    "first.source_tokens": "first.source_token",
    "label_smoothing=0.1": 'label_smoothing="0.1"',
    'format="onnx"': "format=5",
    '"length", digits=1': '"length", digits="1"',
}
"""Texts of the script, and what stands in their place with a mistake. Each spoils one line."""


def test_a_script_of_a_user_passes_strict_type_checks(site, tmp_path):
    """Against the installed wheel. The lines with mistakes are found, and no other, so that its types are there."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (library,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    shutil.copytree(site / "qkv", library / "qkv")
    assert (library / "qkv" / "py.typed").is_file()
    (library / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")  # NumPy and pandas
    strict = ["--strict", "--python-executable", tmp_path / "venv" / "bin" / "python"]
    wrong = SCRIPT
    for text, mistake in MISTAKES.items():
        assert wrong.count(text) == 1, text
        wrong = wrong.replace(text, mistake)
    scripts = {"script.py": SCRIPT, "wrong.py": wrong}
    for name, script in scripts.items():
        (tmp_path / name).write_text(script, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, "-m", "mypy", *strict, *scripts]
    said = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8").stdout
    lines = zip(SCRIPT.splitlines(), wrong.splitlines(), strict=True)
    changed = {("wrong.py", str(number)) for number, (right, line) in enumerate(lines, 1) if right != line}
    assert set(re.findall(r"^(\w+\.py):(\d+): error:", said, re.MULTILINE)) == changed, said
    assert len(changed) == len(MISTAKES)
