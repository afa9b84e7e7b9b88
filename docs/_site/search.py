"""A Sphinx extension: the search of the site, which also works where pages are opened as files.

The index is a script with the text of every section, and `static/search.js` ranks the sections in the browser. Sphinx's
own search finds pages by the words that they share with the query, in no useful order. Pagefind does not work in files,
needs a program of 10 MB for each system, and found fewer of the right pages.
"""

import json
import re

from docutils import nodes
from sphinx import addnodes

REPORTS = ("changes", "contributing", "data/", "extend/reference/", "licences", "measurements/", "tests")
WEIGHTS = {"lessons/": 0.75, **dict.fromkeys((*REPORTS, "use/coming_from"), 0.5)}
"""Weights of pages by the beginnings of their names. Pages that report or list instead of explain count half: who asks
for ensembles wants to know how to make one before how good one was. A name that is spelled as in the reference finds it
first. Lessons ask before they answer."""
HIDDEN = (nodes.comment, nodes.raw, nodes.substitution_definition, addnodes.toctree, addnodes.pending_xref_condition)


class Reader(nodes.NodeVisitor):
    """Collects the sections of a page: of each its anchor, its headings from the page's title on, and its text."""

    def __init__(self, document):
        super().__init__(document)
        self.sections, self.open = [], []

    def start(self, anchor, heading):
        path = [*self.open[-1][1], heading] if self.open else [heading]
        self.open.append((anchor, path, []))
        self.sections.append(self.open[-1])

    def visit_section(self, node):
        anchor = node["ids"][0] if self.open else ""
        self.start(anchor, node.next_node(nodes.title).astext())

    def depart_section(self, node):
        self.open.pop()

    def visit_desc(self, node):
        names = [signature for signature in node.findall(addnodes.desc_signature) if signature["ids"]]
        if names and self.open:
            self.start(names[0]["ids"][0], names[0].get("fullname") or names[0].astext())

    def depart_desc(self, node):
        if self.open and any(signature["ids"] for signature in node.findall(addnodes.desc_signature)):
            self.open.pop()

    def visit_title(self, node):
        raise nodes.SkipNode

    def visit_Text(self, node):  # noqa: N802
        if self.open:
            self.open[-1][2].append(node.astext())

    def depart_paragraph(self, node):
        if self.open:
            self.open[-1][2].append("\n")

    depart_entry = depart_term = depart_literal_block = depart_desc_signature = depart_paragraph

    def unknown_visit(self, node):
        if isinstance(node, HIDDEN):
            raise nodes.SkipNode

    def unknown_departure(self, node):
        pass


def page_sections(document):
    """Returns `[anchor, headings, text]` of each section of a page."""
    reader = Reader(document)
    document.walkabout(reader)
    return [[anchor, path, re.sub(r"\s+", " ", "".join(text)).strip()] for anchor, path, text in reader.sections]


def write_index(app, exception):
    if exception is None and app.builder.format == "html":
        pages = [
            {
                "address": app.builder.get_target_uri(page),
                "weight": next((weight for start, weight in WEIGHTS.items() if page.startswith(start)), 1),
                "sections": page_sections(app.env.get_doctree(page)),
            }
            for page in sorted(app.env.found_docs)
        ]
        text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
        (app.outdir / "search_index.js").write_text(f"searchIn({text});\n", encoding="utf-8")


def setup(app):
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
