"""The site that `make docs` builds from these pages with Sphinx."""

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_site"))

# The project

project = "qkv"
author = "The qkv authors"
version = release = re.search('__version__ = "(.+)"', (DOCS.parent / "pipeline/qkv/version.py").read_text())[1]
language = "en"

# Pages

extensions = ["myst_nb", "sphinx_design", "sphinx_copybutton", "repository"]
root_doc = "index"
exclude_patterns = ["_site"]
nitpicky = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 6
suppress_warnings = ["toc.not_included", "toc.not_readable"]

nb_execution_mode = "off"

# Looks

html_theme = "furo"
html_title = "qkv"

# The reference, from docstrings (docs/_site/docstrings.py)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
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
