"""A Sphinx extension: links from pages to files of the repository outside `docs/` work on the site, also offline.

Markdown for readers becomes a page (`PAGES`). Any other text file, such as a config, is shown on a page with its lines
coloured, and a folder on a page with the names of its files.
"""

from html import escape
from pathlib import Path

from docutils import nodes
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.project import Project
from sphinx.transforms import SphinxTransform
from sphinx.util.osutil import relative_uri

PAGES = {
    "../CONTRIBUTING.md": "contributing",
    "../CHANGELOG.md": "changes",
    "../tests/README.md": "tests",
    "../tests/licences.md": "licences",
    "../data/demo/README.md": "data/demo",
    "../data/multi30k/README.md": "data/multi30k",
    "../data/manythings/README.md": "data/manythings",
}
"""The page of each file outside `docs/`, by its path from `docs/`."""
IN_NO_LIST = {"tests", "data/demo", "data/multi30k", "data/manythings"}
"""Pages that other pages link, and that the lists of pages leave out."""
ALIASES = {"../README.md": "index"}
"""The page to which links to a file lead that has none."""
IMAGES = (".gif", ".jpg", ".png", ".svg")


class RepositoryPages(Project):
    """The pages in `docs/`, with those of `PAGES`."""

    def discover(self, *arguments, **named):
        super().discover(*arguments, **named)
        for path, name in PAGES.items():
            self.docnames.add(name)
            self._docname_to_path[name] = Path(path)
        return self.docnames

    def path2doc(self, filename):
        path = Path(self.srcdir, filename).resolve()
        for outside, name in (PAGES | ALIASES).items():
            if path == (self.srcdir / outside).resolve():
                return name
        return super().path2doc(filename)


class ShowFiles(SphinxTransform):
    """Turns links to files and folders of the repository into links to pages that show them."""

    default_priority = 10

    def apply(self, **named):
        page = self.env.docname
        for link in list(self.document.findall(is_link_to_file)):
            path = Path(self.env.relfn2path(link["reftarget"], page)[1]).resolve()
            if path.exists() and path.suffix not in IMAGES:
                root = self.env.srcdir.resolve().parent
                shown = path.relative_to(root).as_posix()
                self.env.shown_files.setdefault(page, set()).add(shown)
                uri = self.app.builder.get_relative_uri(page, page_name(shown))
                link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def is_link_to_file(node):
    return isinstance(node, addnodes.download_reference) or (
        isinstance(node, addnodes.pending_xref) and node["refdomain"] is None and node["reftarget"].endswith("/")
    )


def page_name(path):
    return f"files/{path}"


def add_pages(app):
    app.env.project.__class__ = RepositoryPages
    vars(app.env).setdefault("shown_files", {})


def leave_out_of_lists(app, document):
    if app.env.docname in IN_NO_LIST:
        app.env.metadata[app.env.docname]["orphan"] = True


def forget_page(app, env, page):
    env.shown_files.pop(page, None)


def merge_pages(app, env, pages, other):
    env.shown_files.update({page: other.shown_files[page] for page in pages if page in other.shown_files})


def shown_pages(app):
    """Yields the page of each file and folder that pages link."""
    root = app.srcdir.resolve().parent
    linked = {path for paths in app.env.shown_files.values() for path in paths}
    folders = {path for path in linked if (root / path).is_dir()}
    files = linked - folders
    for folder in sorted(folders):
        inside = sorted(path.relative_to(root).as_posix() for path in (root / folder).iterdir() if path.is_file())
        files.update(inside)
        here = app.builder.get_target_uri(page_name(folder))
        links = [(relative_uri(here, app.builder.get_target_uri(page_name(path))), path) for path in inside]
        body = "".join(f'<li><a href="{uri}">{escape(path)}</a></li>' for uri, path in links)
        yield page(folder, f"<ul>{body}</ul>")
    for path in sorted(files):
        text = (root / path).read_text(encoding="utf-8")
        try:
            lexer = get_lexer_for_filename(path).aliases[0]
        except ClassNotFound:
            lexer = TextLexer.aliases[0]
        yield page(path, app.builder.highlighter.highlight_block(text, lexer, linenos="inline"))


def page(path, body):
    title = f"<code>{escape(path)}</code>"
    return page_name(path), {"title": title, "body": f"<h1>{title}</h1>{body}"}, "page.html"


def setup(app):
    app.add_transform(ShowFiles)
    app.connect("builder-inited", add_pages)
    app.connect("doctree-read", leave_out_of_lists)
    app.connect("env-purge-doc", forget_page)
    app.connect("env-merge-info", merge_pages)
    app.connect("html-collect-pages", shown_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
