"""What is installed, and what a citation says: ranges, pins, locks, licences and the version agree."""

import itertools
import re
import tomllib
from importlib.metadata import distributions

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from qkv.version import __version__
from tests.support import ROOT
from tests.support.locks import locked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SYSTEMS = {
    "Linux": {"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix", "platform_machine": "x86_64"},
    "macOS": {"platform_system": "Darwin", "sys_platform": "darwin", "os_name": "posix", "platform_machine": "arm64"},
    "Windows": {"platform_system": "Windows", "sys_platform": "win32", "os_name": "nt", "platform_machine": "AMD64"},
}
PYTHONS = ("3.11", "3.12", "3.13")
ENVIRONMENTS = [
    SYSTEMS[system] | {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
    for system, python in itertools.product(SYSTEMS, PYTHONS)
]
LOCKS = {"requirements.lock": "requirements.txt", "tests/requirements.lock": "tests/requirements.txt"}
RENEW = "expected the lock of requirements.txt: make lock"
RANGES = {range_.name: range_ for range_ in map(Requirement, PROJECT["dependencies"])}

INSTALLED = {canonicalize_name(one.metadata["Name"]): one for one in distributions()}


def requirements(file):
    lines = (line.partition("#")[0].strip() for line in (ROOT / file).read_text(encoding="utf-8").splitlines())
    return {pin.name: pin for pin in (Requirement(line) for line in lines if line and not line.startswith("-"))}


def version_of(pin):
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    return specifier.version


@pytest.mark.parametrize("file", ["requirements.txt", "tests/lower.txt"])
def test_pins_are_of_the_packages_that_are_needed_and_within_their_ranges(file):
    pins = requirements(file)
    assert list(pins) == list(RANGES)
    for name, pin in pins.items():
        assert version_of(pin) in RANGES[name].specifier, pin


def test_the_lowest_versions_are_the_lower_ends_of_the_ranges():
    for name, pin in requirements("tests/lower.txt").items():
        (least,) = (limit.version for limit in RANGES[name].specifier if limit.operator == ">=")
        assert version_of(pin).startswith(least), f"{pin}: {least}"


def test_the_next_versions_are_not_earlier_than_the_pinned_ones():
    pins = requirements("requirements.txt")
    lines = (ROOT / "tests" / "next.txt").read_text(encoding="utf-8").splitlines()
    named = dict(line.split(": ") for line in lines if not line.startswith("#"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"\n{' '.join(f'test-next-{name}' for name in named)}: " in makefile
    for name, packages in named.items():
        first, *_ = map(Requirement, packages.split())
        assert Version(version_of(first)) >= Version(version_of(pins[name])), first


def test_windows_goes_without_tensorflow_text():
    marker = RANGES["tensorflow-text"].marker
    for name in ("Linux", "Darwin", "Windows"):
        assert marker.evaluate({"platform_system": name}) == (name != "Windows")


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: f"{one['sys_platform']}-{one['python_version']}")
def test_a_lock_has_one_version_of_each_pinned_package_on_every_system_and_python(lock, environment):
    there = [pin for pin in locked(lock) if pin.holds(environment)]
    versions = {pin.name: pin.version for pin in there}
    assert len(versions) == len(there)
    pins = requirements("requirements.txt") | requirements(LOCKS[lock])
    for name, pin in pins.items():
        if pin.marker is None or pin.marker.evaluate(environment):
            assert str(versions.get(canonicalize_name(name))) in pin.specifier, f"{pin}: {RENEW}"
        else:
            assert canonicalize_name(name) not in versions, f"{pin}: {RENEW}"


def test_what_the_tests_lock_adds_changes_nothing_of_what_runs():
    assert {pin.name: pin for pin in locked("requirements.lock")}.items() <= {
        pin.name: pin for pin in locked("tests/requirements.lock")
    }.items()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_packages_and_hashes_and_no_place_to_fetch_them_from(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"://|^\s*-[^-]|^--| @ |/(opt|tmp|home|root)/", text, re.MULTILINE)
    for pin in locked(lock):
        assert pin.hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in pin.hashes), pin.name


@pytest.mark.parametrize("lock", LOCKS)
def test_what_a_locked_package_needs_is_locked_too(lock):
    """Of those that are installed here in the locked version: the others' metadata cannot be read."""
    there = {pin.name: pin.version for pin in locked(lock) if pin.holds({})}
    for name in there.keys() & INSTALLED.keys():
        if Version(INSTALLED[name].version) != there[name]:
            continue  # as in the environment of `make test-lower`
        for needed in map(Requirement, INSTALLED[name].requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in there, f"{name}: {needed}: {RENEW}"


def test_every_locked_package_has_a_known_licence():
    text = (ROOT / "tests" / "licences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.*) \| (.*) \|$", text.split("|---|---|---|\n")[1], re.MULTILINE)
    listed = [(name, use) for _, *row in rows for use, cell in enumerate(row) for name in cell.split(", ") if name]
    running = {pin.name for pin in locked("requirements.lock")}
    names = {pin.name for pin in locked("tests/requirements.lock")}
    assert sorted(listed) == [(name, int(name not in running)) for name in sorted(names)], (
        "expected the list of what is locked: make licences"
    )
    assert not [licence for licence, *_ in rows if re.search("unknown|proprietary|GPL", licence, re.IGNORECASE)]


def test_the_citation_names_the_version_and_the_licences_authors():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # those that the format requires
    assert (citation["title"], citation["version"], citation["license"]) == ("qkv", __version__, "MIT")
    (author,) = citation["authors"]
    assert author["name"] in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert [{"name": author["name"]}] == PROJECT["authors"]
