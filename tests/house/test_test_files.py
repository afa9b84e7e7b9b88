"""What is expected of the tests themselves: that neither a slow machine nor another order fails any of them."""

import ast
import re
from pathlib import Path

from tests.support import ROOT

TESTS = ROOT / "tests"
FILES = {
    str(path.relative_to(TESTS)): path.read_text(encoding="utf-8")
    for path in sorted(TESTS.rglob("*.py"))
    if path.relative_to(TESTS).parts[0] != "benchmarks" and path != Path(__file__)
}

CLOCK = re.compile(
    r"\b(perf_counter|process_time|thread_time|monotonic|clock_gettime|timeit|getrusage|default_timer)(_ns)?\b"
    r"|\btime\.time(_ns)?\(|\bos\.times\(|\bdatetime\.(now|utcnow)\("
)
CLOCKS = {
    "text/prepare/test_prepare.py": "a process is killed once it has written enough: the clock ends the wait",
    "run/doctor/test_estimates.py": "it reads none: it puts one of its own in the place of the clock",
    "training/stopping/test_stopping.py": "it reads none: it puts one of its own in the place of the clock",
    "files/test_run_directory.py": "a process waits for its turn: the clock ends the wait",
}
TIMEOUT = re.compile(r"\btimeout=\d.*|\.(?:wait|join|result)\(\d.*|\bmonotonic\(\) \+ \d.*|\bdeadline=\d.*")


def test_no_test_reads_a_clock_but_to_end_a_wait():
    """How long something takes is a benchmark's business: an assertion about it fails where the machine is slow."""
    assert {name for name, text in FILES.items() if CLOCK.search(text)} == set(CLOCKS)


def test_no_test_file_is_imported_by_another_file():
    """What tests share is in `support/`, and fixtures alone are in files of conftest."""
    own = re.compile(r"(^|\.)(test_\w+|conftest)$")
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests":
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                assert not any(map(own.search, names)), f"{path}:{node.lineno}"


def test_every_wait_is_as_patient_as_the_slowest_machine_needs():
    found = {name: TIMEOUT.findall(text) for name, text in FILES.items() if TIMEOUT.search(text)}
    assert not found, "expected PATIENCE_SECONDS of tests/support/processes.py"


def test_nothing_draws_from_tensorflows_own_generators():
    """`conftest.py` leaves them as they are between tests. Keras' generators, which it seeds, are the ones to use."""
    modules = {str(path.relative_to(TESTS.parent)): path for path in (TESTS.parent / "pipeline" / "qkv").rglob("*.py")}
    texts = FILES | {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    own = re.compile(r"\btf\.random\.(?!stateless|set_seed|Generator)\w+\(|\bDataset\b.*\.shuffle\(")
    found = {name for name, text in texts.items() if own.search(text)}
    assert found == {"pipeline/qkv/runtime/devices.py"}  # a matrix to be multiplied against the clock
