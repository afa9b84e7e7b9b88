"""Builds the sdist and the wheel in dist/ without the network, and checks them: `make dist`.

- The page of a package index is README.md, where links into the repository lead nowhere. A copy of the sources is
  built, in which such links name the repository of `git remote get-url origin`, or of `GITHUB_REPOSITORY` in a
  workflow, at the tag of this version. Without either, the words of links stay, and pictures are left out.
- Two builds of a commit give the same bytes: every time in the files is `SOURCE_DATE_EPOCH`, or else the commit's.
"""

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MOST_BYTES = 3_000_000
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n(?:\n\*[^*]+\*\n)?\n?", re.MULTILINE)
"""A picture of the repository in a paragraph of its own, with the paragraph in italics below it."""
RELATIVE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|mailto:|#)([^)\s]+)\)")


def git(*arguments: str) -> str:
    """Returns what git prints; an empty text if it fails."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8").stdout.strip()


def repository_address(origin: str, environment: dict[str, str]) -> str | None:
    """Returns the web address of the repository, such as https://host/owner/name; None if it has none.

    Args:
        origin: what `git remote get-url origin` prints. A folder of this machine gives None.
        environment: the variables of the environment, of which a workflow's `GITHUB_REPOSITORY` comes first.
    """
    if name := environment.get("GITHUB_REPOSITORY"):
        return f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    remote = re.fullmatch(
        r"(?:https?://(?:[^@/]*@)?|ssh://git@|git@)([\w-]+(?:\.[\w-]+)+)[:/](\w.*?)(?:\.git)?/?", origin
    )
    return f"https://{remote[1]}/{remote[2]}" if remote else None


def for_an_index(text: str, address: str | None, tag: str) -> str:
    """Returns Markdown whose links and pictures need no repository beside it. Code in fences is unchanged."""

    def link(match: re.Match[str]) -> str:
        picture, words, path = match.groups()
        if address is None:
            return "" if picture else words
        return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/{tag}/{path})"

    parts = FENCED.split(text)
    for index in range(0, len(parts), 2):
        part = parts[index] if address else PICTURE.sub("", parts[index])
        parts[index] = RELATIVE.sub(link, RELATIVE.sub(link, part))  # a picture may stand inside a link
    return "".join(parts)


def links(address: str, tag: str) -> str:
    """Returns the table `project.urls` of pyproject.toml."""
    return f"""
[project.urls]
Source = "{address}"
Documentation = "{address}/tree/{tag}/docs"
Changelog = "{address}/blob/{tag}/CHANGELOG.md"
Issues = "{address}/issues"
"""


def copy_sources(folder: Path, version: str) -> None:
    """Copies what the package is built from, without files that git ignores, and makes it fit for an index."""
    tracked = git("ls-files", "--cached", "--others", "--exclude-standard", "pipeline/qkv").splitlines()
    if not tracked:  # an unpacked archive of the sources, without git
        files = sorted(path for path in (ROOT / "pipeline/qkv").rglob("*") if path.is_file())
        tracked = [path.relative_to(ROOT).as_posix() for path in files if path.parent.name != "__pycache__"]
    for name in [*SOURCES, *tracked]:
        if (ROOT / name).is_file():  # a file may be deleted, and not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            (folder / name).chmod(0o644)
    address = repository_address(git("remote", "get-url", "origin"), dict(os.environ))
    readme = folder / "README.md"
    readme.write_text(for_an_index(readme.read_text("utf-8"), address, f"v{version}"), "utf-8")
    if address:
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as project:
            project.write(links(address, f"v{version}"))


def build(kind: str, sources: Path, folder: Path) -> Path:
    """Builds an sdist or a wheel with the setuptools that is installed, and returns the file."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", folder, sources]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        sys.exit(done.stdout)
    (file,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


def repack(sdist: Path, target: Path, time: int) -> None:
    """Writes an sdist again, with sorted files that all have one time and no owner, as setuptools does not."""
    tar = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(filter(tarfile.TarInfo.isfile, old), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime, entry.mode = member.size, time, 0o644
            new.addfile(entry, old.extractfile(member))
    with target.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=time) as packed:
        packed.write(tar.getvalue())


def unpack(sdist: Path, folder: Path) -> Path:
    """Extracts an sdist, and returns its single folder."""
    with tarfile.open(sdist) as tar:
        tar.extractall(folder, filter="data")
    (sources,) = folder.iterdir()
    return sources


def mistakes_of(wheel: Path, package: Path, version: str) -> list[str]:
    """Returns what is wrong with a wheel, a line each.

    Args:
        wheel: the file.
        package: the folder `qkv` that it was built from: the wheel must have all of its files, and no others.
        version: the version that the metadata must name.
    """
    mistakes = []
    if wheel.stat().st_size > MOST_BYTES:
        mistakes.append(f"it has {wheel.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    expected = {f"qkv/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        mistakes += [f"{name} is not in it" for name in sorted(expected - names)]
        mistakes += [f"{name} does not belong into it" for name in sorted(names - expected)]
        metadata = BytesParser().parsebytes(archive.read(f"qkv-{version}.dist-info/METADATA"))
    if metadata["Version"] != version or metadata["License-Expression"] != "MIT":
        mistakes.append(f"its metadata names {metadata['Version']} and {metadata['License-Expression']}")
    description = "".join(FENCED.split(str(metadata.get_payload()))[::2])
    mistakes += [f"its description has the relative link {link[3]}" for link in RELATIVE.finditer(description)]
    tags = re.findall(r"<[^>]*(?:src|href)=[\"'](?!https?:)[^>]*>", description)
    return [*mistakes, *(f"its description has {tag}" for tag in tags)]


def main() -> None:
    """Builds, checks, and says what is in `dist/`."""
    code = (ROOT / "pipeline" / "qkv" / "version.py").read_text("utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', code, re.MULTILINE)
    time = int(os.environ.setdefault("SOURCE_DATE_EPOCH", git("log", "-1", "--format=%ct") or "1700000000"))
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary, name) for name in ("copy", "sdist", "unpacked", "wheel", "again")}
        for folder in folders.values():
            folder.mkdir()
        copy_sources(folders["copy"], version)
        package = folders["copy"] / "pipeline" / "qkv"
        wheel = build("wheel", folders["copy"], folders["wheel"])
        mistakes = mistakes_of(wheel, package, version)
        built = build("sdist", folders["copy"], folders["sdist"])
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        sdist = DIST / built.name
        repack(built, sdist, time)
        again = build("wheel", unpack(sdist, folders["unpacked"]), folders["again"])
        if again.read_bytes() != wheel.read_bytes():
            mistakes.append("the sdist builds another wheel")
        shutil.copyfile(wheel, DIST / wheel.name)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir())], check=True)
    if mistakes:
        sys.exit("\n".join(f"error: {wheel.name}: {mistake}" for mistake in mistakes))
    for file in sorted(DIST.iterdir()):
        print(f"dist/{file.name}  {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
