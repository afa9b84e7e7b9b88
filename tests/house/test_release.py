"""What is built for an index: its page, its links, its contents; and the version."""

import re
import runpy
import sys
import zipfile

import pytest
import yaml

from qkv.version import __version__
from tests.support import ROOT

BUILD = runpy.run_path(str(ROOT / ".ci" / "build.py"))
TRY = runpy.run_path(str(ROOT / ".ci" / "try_wheel.py"))
ADDRESS = "https://host.example/owner/name"

for_an_index, mistakes_of = BUILD["for_an_index"], BUILD["mistakes_of"]


# The page of an index


@pytest.mark.parametrize(
    ("text", "with_address", "without"),
    [
        ("[a page](pages/a.md#b) and", f"[a page]({ADDRESS}/blob/v1/pages/a.md#b) and", "a page and"),
        ("[`a` [b]](c/)", f"[`a` [b]]({ADDRESS}/blob/v1/c/)", "`a` [b]"),
        ("a ![b](c.png) d", f"a ![b]({ADDRESS}/raw/v1/c.png) d", "a  d"),
        ("[![b](c.png)](d.md)", f"[![b]({ADDRESS}/raw/v1/c.png)]({ADDRESS}/blob/v1/d.md)", ""),
        ("a\n\n![b](c.png)\n\n*Below\nit.*\n\nd", f"a\n\n![b]({ADDRESS}/raw/v1/c.png)\n\n*Below\nit.*\n\nd", "a\n\nd"),
        *((text, text, text) for text in ("[a](https://b.example)", "[a](#b)", "```py\n[a](b.md)\n```", "x[0](1 + 2)")),
    ],
)
def test_links_into_the_repository_are_made_whole_or_leave_their_words(text, with_address, without):
    assert for_an_index(text, ADDRESS, "v1") == with_address
    assert for_an_index(text, None, "v1") == without


def test_the_readme_has_no_relative_link_on_an_index():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for address in (ADDRESS, None):
        page = for_an_index(readme, address, "v1")
        assert not re.findall(r"\]\((?!https://|#)|(?:src|href)=\"(?!https://)", page)
        assert "\n\n\n" not in page and len(page.splitlines()) > 30


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://github.com/owner/name.git", "https://github.com/owner/name"),
        ("https://user:secret@github.com/owner/name", "https://github.com/owner/name"),
        ("git@git.example.org:group/owner/name.git", "https://git.example.org/group/owner/name"),
        ("ssh://git@github.com/owner/name.git", "https://github.com/owner/name"),
        *((origin, None) for origin in ("", "/srv/name.git", "../name", "file:///srv/name.git", "C:\\name")),
    ],
)
def test_the_address_of_the_repository_comes_from_its_origin_or_the_workflow(origin, address):
    assert BUILD["repository_address"](origin, {}) == address
    workflow = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "other/fork"}
    assert BUILD["repository_address"](origin, workflow) == "https://github.com/other/fork"


# The wheel

METADATA = "Metadata-Version: 2.4\nName: qkv\nVersion: 1.0\nLicense-Expression: MIT\n\n"


def wheel_mistakes(folder, files, description="# qkv"):
    """What is wrong with a wheel of some files, where the package is a folder with `a.py` and `b/page.html`."""
    package = folder / "package"
    for name in ("a.py", "b/page.html"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    with zipfile.ZipFile(folder / "wheel", "w") as wheel:
        for name in files:
            wheel.writestr(name, "")
        wheel.writestr("qkv-1.0.dist-info/METADATA", METADATA + description)
    return mistakes_of(folder / "wheel", package, "1.0")


RIGHT = ["qkv/a.py", "qkv/b/page.html"]


@pytest.mark.parametrize(
    ("files", "description", "mistake"),
    [
        (RIGHT[:1], "", "qkv/b/page.html is not in it"),
        ([*RIGHT, "tests/test_a.py"], "", "tests/test_a.py does not belong into it"),
        (RIGHT, "see [a](pages/a.md)", "its description has the relative link pages/a.md"),
        (RIGHT, '<img src="a.png">', 'its description has <img src="a.png">'),
    ],
)
def test_a_wheel_with_a_mistake_is_refused(files, description, mistake, tmp_path):
    assert wheel_mistakes(tmp_path, files, description) == [mistake]


def test_a_wheel_has_a_largest_size(tmp_path, monkeypatch):
    assert wheel_mistakes(tmp_path, RIGHT) == []
    assert BUILD["MOST_BYTES"] <= 3_000_000
    monkeypatch.setitem(mistakes_of.__globals__, "MOST_BYTES", 100)
    (mistake,) = wheel_mistakes(tmp_path, RIGHT)
    assert mistake.endswith("bytes, expected at most 100")


def test_pythons_are_named_or_found():
    this = "{}.{}".format(*sys.version_info)
    assert TRY["find_pythons"]([sys.executable]) == {this: sys.executable}
    assert this in TRY["find_pythons"]([])
    with pytest.raises(SystemExit, match=r"error: no-such-python: expected interpreters of Python 3\.11, 3\.12, 3\.13"):
        TRY["find_pythons"](["no-such-python"])


# The version


def test_the_changes_begin_with_this_version_and_its_date():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = [part for part in re.split(r"^## ", text, flags=re.MULTILINE) if not part.startswith("Not released yet")]
    (promise,) = sections[1].split("\n", 1)[1].strip().split("\n\n")  # one paragraph
    assert "MINOR" in promise
    version, date = sections[2].splitlines()[0].split(", ")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert version == __version__
    assert f"{citation['date-released']:%-d %B %Y}" == date
    assert len(sections[2].split()) < 800  # three minutes
