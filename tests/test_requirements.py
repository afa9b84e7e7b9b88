"""What is installed, and what a citation says: ranges, pins and the version agree."""

import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from pipeline.version import __version__
from tests.tiny_runs import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RANGES = {range_.name: range_ for range_ in map(Requirement, PROJECT["dependencies"])}


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


def test_windows_goes_without_tensorflow_text():
    marker = RANGES["tensorflow-text"].marker
    assert [marker.evaluate({"platform_system": name}) for name in ("Linux", "Darwin", "Windows")] == [
        True,
        True,
        False,
    ]


def test_the_citation_names_the_version_and_the_licences_authors():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # those that the format requires
    assert (citation["title"], citation["version"], citation["license"]) == ("qkv", __version__, "MIT")
    (author,) = citation["authors"]
    assert author["name"] in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert [{"name": author["name"]}] == PROJECT["authors"]
