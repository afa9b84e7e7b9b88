"""Runs tests in a child of a process that has imported TensorFlow already, in a copy of the project.

Importing TensorFlow takes longer than most tests of a module. The parent only imports: it runs no operation, so that it
has no threads, which would not survive a fork.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

MEMORY_BYTES = 8 * 2**30
PATIENCE = 4  # times what the tests of a file take unchanged, and half a minute
# As tests/conftest.py sets them; they are read when TensorFlow is imported.
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}


def import_all() -> None:
    os.environ.update(ENVIRONMENT)
    sys.dont_write_bytecode = True  # a mutant that is as long as the module could be taken for it
    for name in ("numpy", "pandas", "tensorflow", "keras", "tensorflow_text", "sacrebleu", "pytest"):
        __import__(name)


class Order:
    """A plugin of pytest that runs the quickest tests first and notes how long each takes and which fails."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.taken: dict[str, float] = {}
        self.failed = ""

    def pytest_configure(self, config):
        import hypothesis

        # The same examples each time, and the first that fails is enough.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutation", hypothesis.settings.get_profile("qkv"), derandomize=True, database=None, phases=phases
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: self.seconds.get(item.nodeid, 1))

    def pytest_runtest_logreport(self, report):
        self.taken[report.nodeid] = self.taken.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed = self.failed or f"{report.nodeid}: is not imported"


@dataclass
class Copy:
    """A copy of the project whose modules are changed and tested.

    Args:
        folder: a new folder.
        seconds: how long each test takes, as far as is known.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(os.path.isfile, listed.stdout.splitlines()):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, self.folder / name)

    def test_mutant(self, module: str, code: str, files: list[str]) -> str:
        """Returns the test that fails with this code of a module, or "" if none does."""
        path = self.folder / module
        original = path.read_text(encoding="utf-8")
        path.write_text(code, encoding="utf-8")
        try:
            seconds = {file: self.seconds_of(file) for file in files}
            failures = (
                self.test(file, PATIENCE * seconds[file] + 30) for file in sorted(files, key=seconds.__getitem__)
            )
            return next(filter(None, failures), "")
        finally:
            path.write_text(original, encoding="utf-8")

    def seconds_of(self, file: str) -> float:
        """Returns how long the tests of a file take with the code unchanged, as far as is known."""
        return sum(seconds for test, seconds in self.seconds.items() if test.partition("::")[0] == file)

    def test(self, file: str, limit_seconds: float, *, whole: bool = False) -> str:
        """Runs the tests of a file up to the first that fails, in a child of its own: in one that has run those of
        others, some fail that do not with the code unchanged.

        Args:
            file: its path.
            limit_seconds: CPU time after which a test counts as failed, or three times that on the clock.
            whole: whether all are run, and how long they take is noted.

        Returns:
            The first test that fails, or "" if none does.
        """
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            try:
                self._run_pytest(file, answer, limit_seconds, whole)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        end = time.monotonic() + 3 * limit_seconds
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.05)
        if not answer.exists():
            return "no end within the time or memory that the tests need"
        failed, taken = json.loads(answer.read_text(encoding="utf-8"))
        if whole:
            self.seconds |= taken
        return failed

    def _run_pytest(self, file: str, answer: Path, limit_seconds: float, whole: bool) -> None:
        import pytest

        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_seconds), int(limit_seconds) + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        output = os.open(self.folder / "output.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(self.folder)
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "qkv")]:
            del sys.modules[name]
        sys.path[:1] = [str(self.folder), str(self.folder / "pipeline")]
        order = Order(self.seconds)
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *([] if whole else ["-x"]),
            "--rootdir",
            str(self.folder),
            file,
        ]
        status = pytest.main(["-m", "not minutes", *options], plugins=[order])
        if status == pytest.ExitCode.NO_TESTS_COLLECTED:  # all of them take minutes
            status = pytest.main(options, plugins=[order])
        sys.stdout.flush()
        failed = order.failed or ("" if status in (0, 5) else f"pytest ends with status {int(status)}")
        answer.write_text(json.dumps([failed, order.taken]), encoding="utf-8")
