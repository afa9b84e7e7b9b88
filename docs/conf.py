"""The site that `make docs` builds from these pages with Sphinx."""

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

nb_custom_formats = {".ipynb": ["lessons.read_notebook", {}]}
nb_execution_mode = "off"  # but for notebooks that the reader marks
nb_execution_cache_path = str(DOCS.parent / "build" / "notebooks")
nb_execution_timeout = 600
nb_execution_raise_on_error = True

# Looks

html_theme = "furo"
html_title = "qkv"
