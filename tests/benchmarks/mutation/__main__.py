"""Changes the code in one place after the other and lists the changes that no test notices.

    python -m tests.benchmarks.mutation                    all mutants of the modules that differ from main
    python -m tests.benchmarks.mutation --sample 400       a sample of all packages
    python -m tests.benchmarks.mutation --sample 400 --again   those that survived once more, after tests were written
    python -m tests.benchmarks.mutation --sample 400 --report  the table, as far as it is known
    python -m tests.benchmarks.mutation --named            the mistakes of named.csv

It goes on where it was stopped. Results are in .mutation/, a session of Cosmic Ray for each set of mutants; those of
samples are also in results.csv, so that another machine goes on with them.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

from .forked_tests import import_all
from .mutants import Mutant, modules, mutants_of, one_of_each_place, sample
from .workers import Task, Workers

FOLDER = Path(".mutation")
RESULTS = Path(__file__).with_name("results.csv")
NAMED = Path(__file__).with_name("named.csv")
EQUIVALENT = Path(__file__).with_name("equivalent.csv")
LEAST = 20  # mutants of each package
ALL = "all tests that are to meet it"  # of its package, or of its module where it is said to change nothing
# Whole trainings: what they check of these modules, their own tests check sooner.
LONG_ONES = "loop checkpoint resumed_runs run_in_tensorboard run_training workers"
LONG = {f"tests/training/test_{name}.py" for name in re.split(" ", LONG_ONES)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N", help="draw N mutants of all packages")
    parser.add_argument("--since", default="main", help="without --sample: the commit that modules are compared with")
    parser.add_argument("--again", action="store_true", help="test those that survived once more")
    parser.add_argument("--report", action="store_true", help="test nothing")
    parser.add_argument("--named", action="store_true", help="test the mistakes of named.csv only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="test N mutants at a time")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    if options.named:
        return test_named(options.jobs)
    mutants = sample(options.sample, LEAST) if options.sample else mutants_of_changes(options.since)
    session = f"sample-{options.sample}" if options.sample else f"changes-{digest()}"
    with use_db(str(FOLDER / f"{session}.sqlite"), WorkDB.Mode.create) as results:
        if options.sample:
            read_results(mutants, results)
        try:
            if not options.report:
                test_all(mutants, results, again=options.again, jobs=options.jobs)
        finally:
            if options.sample:
                write_results(mutants, dict(results.results))
        return report(mutants, dict(results.results))


def read_results(mutants: list[Mutant], results: WorkDB) -> None:
    """Takes over what other machines have found; what this one has found stays."""
    if not RESULTS.is_file():
        return
    with RESULTS.open(encoding="utf-8", newline="") as lines:
        tests = {row["mutant"]: row["failed"] for row in csv.DictReader(lines)}
    known = {job for job, _ in results.results}
    items = {item.job_id for item in results.work_items}
    for mutant in mutants:
        if mutant.identity in tests and mutant.identity not in known:
            if mutant.identity not in items:
                results.add_work_item(work_item(mutant))
            test = tests[mutant.identity]
            outcome = TestOutcome.KILLED if test else TestOutcome.SURVIVED
            results.set_result(mutant.identity, WorkResult(WorkerOutcome.NORMAL, test or ALL, outcome, mutant.change()))


def write_results(mutants: list[Mutant], results: Mapping[str, WorkResult]) -> None:
    """Writes which test failed for each mutant whose tests were all run, or nothing if none did."""
    rows = sorted(
        (mutant.module, mutant.identity, "" if result.output == ALL else result.output)
        for mutant in mutants
        if (result := results.get(mutant.identity)) is not None and result.output
    )
    with RESULTS.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["module", "mutant", "failed"])
        writer.writerows(rows)


def mutants_of_changes(since: str) -> list[Mutant]:
    """Returns a mutant for each place of the modules that differ from where this branch left another."""
    base = subprocess.run(["git", "merge-base", since, "HEAD"], capture_output=True, text=True, check=True)
    differ = subprocess.run(
        ["git", "diff", "--name-only", base.stdout.strip()], capture_output=True, text=True, check=True
    )
    changed = set(differ.stdout.splitlines())
    mutants = [
        mutant
        for package, paths in modules().items()
        for path in paths
        if path in changed
        for mutant in one_of_each_place(mutants_of(package, path))
    ]
    return [mutant for mutant in mutants if mutant.code() is not None]


def digest() -> str:
    """Names the state of code and tests."""
    files = sorted([*Path("pipeline").rglob("*.py"), *Path("tests").rglob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def test_all(mutants: list[Mutant], results: WorkDB, *, again: bool, jobs: int) -> None:
    known = {item.job_id for item in results.work_items}
    results.add_work_items(work_item(mutant) for mutant in mutants if mutant.identity not in known)
    equivalent, done = read_equivalent(), dict(results.results)
    pending = [mutant for mutant in mutants if not is_settled(done.get(mutant.identity), mutant.identity in equivalent)]
    print(f"{len(pending)} of {len(mutants)} mutants to test", flush=True)
    if not pending:
        return
    import_all()
    with Workers(jobs, read_seconds()) as workers:
        for wide in (False, True):
            done = dict(results.results)
            due = [mutant for mutant in pending if is_due(done.get(mutant.identity), wide, again)]
            tasks = [task_of(mutant, wide=wide) for mutant in due if not (wide and mutant.identity in equivalent)]
            measure(workers, [file for task in tasks for file in task.files])
            for number, (task, test) in enumerate(workers.test(tasks), 1):
                mutant = task.mutant
                outcome = TestOutcome.KILLED if test else TestOutcome.SURVIVED
                output = test or (ALL if wide or mutant.identity in equivalent else "")
                results.set_result(mutant.identity, WorkResult(WorkerOutcome.NORMAL, output, outcome, mutant.change()))
                said = test or ("SURVIVES" if wide else "not by its own tests")
                print(f"{number}/{len(tasks)} {mutant.module}: {mutant.change()}: {said}", flush=True)


def is_settled(done: WorkResult | None, is_equivalent: bool) -> bool:
    """Says whether a mutant with this result need not be tested again."""
    return done is not None and (done.is_killed or (is_equivalent and done.output == ALL))


def is_due(done: WorkResult | None, wide: bool, again: bool) -> bool:
    """Says whether a mutant with this result is tested by its own tests, or if `wide` by the others of its package."""
    return done is None or not (done.is_killed or ((done.output == ALL) >= wide and not again))


def test_named(jobs: int) -> int:
    """Makes each mistake that a translator's code is known for; returns 1 if the module's tests let one pass."""
    with NAMED.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    import_all()
    survivors = 0
    with Workers(jobs, read_seconds()) as workers:
        tasks = []
        for row in rows:
            code = Path(row["module"]).read_text(encoding="utf-8")
            assert row["before"] in code, row
            files = row["tests"].split() or own_tests(row["module"])
            tasks.append(Task(row, code.replace(row["before"], row["after"]), files))
        measure(workers, [file for task in tasks for file in task.files])
        for task, test in workers.test(tasks):
            survivors += not test
            print(f"{task.mutant['mistake']}: {test or 'SURVIVES'}", flush=True)
    return int(survivors > 0)


def work_item(mutant: Mutant) -> WorkItem:
    start, end = (mutant.row, mutant.column), (mutant.row, mutant.column + 1)
    spec = MutationSpec(
        mutant.module, mutant.operator, mutant.occurrence, start, end, definition_name=mutant.definition or None
    )
    return WorkItem.single(mutant.identity, spec)


def task_of(mutant: Mutant, *, wide: bool) -> Task:
    """Returns what is to be tested: the tests of the mutant's module, or if `wide` all others of its package."""
    code = mutant.code()
    assert code is not None
    own = own_tests(mutant.module)
    files = [file for file in package_tests(mutant.module) if file not in own] if wide else own
    return Task(mutant, code, files)


def own_tests(module: str) -> list[str]:
    """Returns the file of the module's tests; without one, those that import it or are of its folder; without any,
    those of the modules that import it."""
    path = Path(module)
    file = Path("tests", *path.parts[1:]).with_name(f"test_{path.name}")
    if file.is_file():
        return [str(file)]
    dotted = ".".join(path.with_suffix("").parts)
    imports = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(dotted.rpartition('.')[0])} import .*\b{path.stem}\b")
    files = {name for name in package_tests(module) if imports.search(Path(name).read_text(encoding="utf-8"))}
    of_folder = f"test_{path.parent.name}.py"
    files |= {str(name) for name in (file.parent.with_name(of_folder), file.with_name(of_folder)) if name.is_file()}
    if files:
        return sorted(files)
    imports = re.compile(rf"^from \.+[a-z.]*\b{path.stem} import ", re.MULTILINE)
    above = [other for other in path.parent.glob("*.py") if imports.search(other.read_text(encoding="utf-8"))]
    names = [Path("tests", *other.parts[1:]).with_name(f"test_{other.name}") for other in above]
    return [str(name) for name in names if name.is_file()]


def package_tests(module: str) -> list[str]:
    """Returns the files of tests of the module's package, but for those that train whole runs."""
    package = Path(module).parts[1]
    folder = Path("tests", package)
    files = folder.rglob("test_*.py") if package not in ("training", "text") else folder.glob("test_*.py")
    found = {str(path) for path in [*files, *Path("tests", *Path(module).parts[1:]).parent.glob("test_*.py")]}
    if package == "text":
        imports = f"text.{Path(module).stem} import"
        found = {file for file in found if imports in Path(file).read_text(encoding="utf-8")}
    return sorted(found - LONG)


def read_seconds() -> dict[str, float]:
    file = FOLDER / "seconds.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def measure(workers: Workers, files: list[str]) -> None:
    """Notes how long the tests of these files take with the code unchanged, and which of them are not noted yet.

    Raises:
        SystemExit: one of them fails.
    """
    for seconds in workers.measure(list(dict.fromkeys(files))):
        workers.seconds |= seconds
        (FOLDER / "seconds.json").write_text(json.dumps(workers.seconds), encoding="utf-8")


def read_equivalent() -> set[str]:
    """Returns the mutants of which equivalent.csv says why they change nothing."""
    with EQUIVALENT.open(encoding="utf-8", newline="") as lines:
        return {row["mutant"] for row in csv.DictReader(lines)}


def report(mutants: list[Mutant], results: dict[str, WorkResult]) -> int:
    """Prints the survivors that nobody has explained and a table; returns 1 if there is such a survivor."""
    equivalent = read_equivalent()
    counts: Counter[tuple[str, str]] = Counter()
    for mutant in mutants:
        result = results.get(mutant.identity)
        if result is None:
            continue
        kind = "killed" if result.is_killed else "equivalent" if mutant.identity in equivalent else "survivors"
        counts[mutant.package, kind] += 1
        if kind == "survivors":
            print(f"{mutant.identity} {mutant.module}:{mutant.row} {mutant.definition}: {mutant.change()}")
    print("\n| package | mutants | killed | equivalent | survivors |\n|---|---:|---:|---:|---:|")
    kinds = ("killed", "equivalent", "survivors")
    packages = dict.fromkeys(mutant.package for mutant in mutants)
    rows = {package: [counts[package, kind] for kind in kinds] for package in modules() if package in packages}
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)] or [0, 0, 0]
    for package, row in rows.items():
        print(f"| {package} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    return int(rows["all"][2] > 0)


if __name__ == "__main__":
    sys.exit(main())
