"""Sphinx configuration: Markdown pages, and an interface reference made from the docstrings."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "glueball"
author = "glueball contributors"
copyright = "2026, glueball contributors"
release = version = installed_version("glueball")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

# Several classes have a property `type`; signatures that say `type` mean Python's.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "glueball"
