"""Changes files of every kind at random and reads them: whatever is wrong with them must be an `InputError`.

    python -m tests.benchmarks.fuzz [--minutes 10] [--only archive] [--seed 1] [--findings FILE]

Each kind of file is read in a process of its own, since native readers may take theirs with them. A finding is any
other exception, a process that dies, more memory than 4 GiB beyond what it had, or a file that takes over a minute. It
is printed with the number that makes it again (`--only KIND --seed SEED --first NUMBER --minutes 0`) and, as a line of
JSON, added to a file; the exit status is 1. `make fuzz` does this for a night.
"""

import argparse
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from itertools import count
from pathlib import Path
from typing import IO

from qkv.runtime.import_tensorflow import importing_tensorflow

with importing_tensorflow():  # here, so that no fork has to
    import keras  # noqa: F401

from qkv.errors import InputError
from tests.benchmarks.fuzzed_files import KINDS

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory: a changed file is written for each input."""

SPARE_MEMORY = 4 << 30
LONGEST_SECONDS = 60
TOKENS = [
    *(
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\r\n",
        b"\n\n",
        b"\t",
        b"{",
        b"}",
        b"[",
        b'"',
        b"'",
        b":",
    ),
    *(b"-1", b"1e999", b"nan", b"99999999999999999999", b"null", b"true", b"!!python/object:os.system", b"&a", b"*a"),
    *(
        b"../",
        b"/etc/passwd",
        b"0-0",
        b"9999999-0",
        b"0?0",
        "\u2028".encode(),
        "e\u0301".encode(),
        b"<<:",
        b"%",
        b"(" * 300,
    ),
]


def changed(data: bytes, generator: random.Random) -> bytes:
    """A few random changes."""
    changes = bytearray(data)
    for _ in range(generator.choice((1, 1, 1, 2, 3, 8))):
        place, length = generator.randint(0, len(changes)), generator.choice((1, 1, 2, 4, 16, 200))
        kind = generator.randrange(6)
        if kind == 0 and changes:
            changes[place % len(changes)] ^= 1 << generator.randrange(8)
        elif kind == 1:
            del changes[place : place + length]
        elif kind == 2:
            changes[place:place] = changes[place : place + length] * generator.choice((1, 2, 50))
        elif kind == 3:
            changes[place:place] = generator.choice(TOKENS)
        elif kind == 4:
            changes[place : place + length] = generator.randbytes(length)
        else:
            changes[place:] = b""
    return bytes(changes)


def changed_file(data: bytes, generator: random.Random) -> bytes:
    """Changes a file, or in half of the cases a member of a zip file that is then whole again."""
    if not zipfile.is_zipfile(io.BytesIO(data)) or generator.random() < 0.5:
        return changed(data, generator)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, file = generator.choice(sorted(members)), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, changed(content, generator) if member == name else content)
    return file.getvalue()


def serve(kind: str, seed: int, first: int, seconds: float, answers: IO[str]) -> None:
    """Reads changed files of a kind, and writes a line of JSON before each and for each finding."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        read = KINDS[kind](folder)
        read(folder)
        valid = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_MEMORY, used + SPARE_MEMORY))
        started = time.monotonic()
        for number in count(first):
            generator = random.Random(f"{kind} {seed} {number}")
            path = generator.choice(list(valid))
            path.write_bytes(changed_file(valid[path], generator))
            print(json.dumps({"number": number}), file=answers, flush=True)
            signal.alarm(LONGEST_SECONDS)
            try:
                read(folder)
            except InputError as error:
                if not str(error).strip():
                    print(json.dumps({"finding": "an empty message"}), file=answers, flush=True)
            except BaseException:  # whatever else it is, it is a finding
                print(json.dumps({"finding": traceback.format_exc()[-1500:]}), file=answers, flush=True)
            signal.alarm(0)
            path.write_bytes(valid[path])
            if time.monotonic() - started > seconds:
                return


def start(kind: str, seed: int, first: int, seconds: float) -> tuple[int, IO[str]]:
    """Serves in a fork of this process, silently; returns its id and what it answers."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process:
        os.close(writing)
        return process, os.fdopen(reading)
    status = 1
    try:
        os.close(reading)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silence, stream)
        with os.fdopen(writing, "w") as answers:
            serve(kind, seed, first, seconds, answers)
        status = 0
    finally:
        os._exit(status)


def fuzz(kind: str, seed: int, first: int, seconds: float) -> tuple[int, list[str]]:
    """How many files were read, and what was found."""
    deadline, number, findings = time.monotonic() + seconds, first - 1, []
    while True:
        process, answers = start(kind, seed, number + 1, max(deadline - time.monotonic(), 0))
        with answers:
            for line in answers:
                answer = json.loads(line)
                number = answer.get("number", number)
                if "finding" in answer:
                    findings.append(f"{kind} {number}: {answer['finding']}")
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status == 0:
            return number + 1 - first, findings
        findings.append(f"{kind} {number}: the process ended with {status}")
        if time.monotonic() > deadline:
            return number + 1 - first, findings


def main() -> int:
    """Fuzzes every kind for its share of the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="for all kinds together (default: 10)")
    parser.add_argument("--only", choices=KINDS, help="one kind alone")
    parser.add_argument("--seed", type=int, default=1, help="of the changes (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first change (default: 0)")
    parser.add_argument("--findings", type=Path, metavar="FILE", help="to which findings are added (default: none)")
    options = parser.parse_args()
    kinds = (options.only,) if options.only else tuple(KINDS)
    total = inputs = 0
    for kind in kinds:
        started = time.monotonic()
        files, findings = fuzz(kind, options.seed, options.first, 60 * options.minutes / len(kinds))
        rate = files / (time.monotonic() - started)
        print(f"{kind}: {files:,} files, {rate:,.0f} a second, {len(findings)} findings", flush=True)
        if findings and options.findings:
            with options.findings.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"seed": options.seed, "finding": text}) + "\n" for text in findings)
        print("\n".join(findings[:5]), flush=True)
        total, inputs = total + len(findings), inputs + files
    print(f"{inputs:,} files, {total} findings")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
