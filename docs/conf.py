"""The site that `make docs` builds from these pages with Sphinx.

Its own parts are in `_site/`: links to files outside this folder, the search, pages with a model inside, and the looks.
Nothing is loaded from elsewhere, so that the site also works offline.
"""

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from runpy import run_path

from docutils import nodes

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_site"))

# `make dist` finds the address of the repository in the same way.
BUILD = run_path(str(DOCS.parent / ".ci" / "build.py"))

# The project

project = "qkv"
author = "The qkv authors"
version = release = re.search('__version__ = "(.+)"', (DOCS.parent / "pipeline/qkv/version.py").read_text())[1]
language = "en"
repository = BUILD["repository_address"](BUILD["git"]("remote", "get-url", "origin"), dict(os.environ))

# Pages

extensions = ["myst_nb", "sphinx_copybutton", "repository", "search", "embedding", "lessons"]
root_doc = "index"
exclude_patterns = ["_site"]
nitpicky = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 6

nb_custom_formats = {".ipynb": ["lessons.read_notebook", {}]}
nb_execution_mode = "off"  # but for notebooks that the reader marks
nb_execution_cache_path = str(import_module("lessons").cache_folder())
nb_execution_raise_on_error = True

# The reference, from docstrings (docs/_site/docstrings.py)

sys.path.insert(0, str(DOCS.parent / "pipeline"))
extensions += ["sphinx.ext.autodoc", "docstrings"]
autodoc_typehints = "none"  # signatures are read from the source
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 72
nitpick_ignore_regex = [("py:.*", r"(?!qkv\b).*")]  # names of other packages have no page here
toc_object_entries_show_parents = "hide"

# The reference ends here

# Looks

html_theme = "furo"
html_title = "qkv"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_site/static/favicon.svg"
templates_path = ["_site/templates"]
html_extra_path = [path for path in ["../build/pages"] if (DOCS / path).exists()]  # made by `make docs`
html_additional_pages = {"404": "404.html"}
html_show_sourcelink = html_copy_source = html_show_copyright = html_use_index = False
html_context = {"site_root": f"/{repository.split('/')[-1]}/" if repository else "/"}  # as GitHub serves it
html_theme_options = {"top_of_page_buttons": []}
if repository and repository.startswith("https://github.com/"):
    html_theme_options = {
        "top_of_page_buttons": ["edit"],
        "source_repository": repository,
        "source_branch": "main",
        "source_directory": "docs/",
    }


def describe_page(app, page, template, context, document):
    """Gives a page its first paragraph as its description."""
    paragraph = document and document.next_node(nodes.paragraph)
    if paragraph:
        text = re.sub(r"\s+", " ", paragraph.astext())
        context["metatags"] += (
            f'<meta name="description" content="{app.builder.templates.environment.filters["e"](text)}">'
        )


def link_pictures(app, page, template, context, document):
    """Makes each picture a link to itself in full size."""
    image = re.compile(r'(<a [^>]*>\s*)?<img [^>]*?src="([^"]+\.png)"[^>]*>')
    if "body" in context:
        context["body"] = image.sub(
            lambda found: found[0] if found[1] else f'<a href="{found[2]}">{found[0]}</a>', context["body"]
        )


def setup(app):
    app.connect("html-page-context", describe_page)
    app.connect("html-page-context", link_pictures)
