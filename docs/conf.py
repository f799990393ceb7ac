"""Settings of the documentation; ``make docs`` builds it from a copy of this folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import dm2l

HERE = Path(__file__).parent
ROOT = Path(dm2l.__file__).parents[2]
sys.path.insert(0, str(HERE))  # for mathml

project = "dm2l"
author = "The dm2l developers"
copyright = "The dm2l developers, BSD-3-Clause"
version = release = dm2l.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "gallery/*.md5", "gallery/*.zip"]
templates_path = ["_templates"]

# Pages -----------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# "[1]" in a table of figures is no footnote, and a page of GitHub shows the same text.
myst_links_external_new_tab = False
html_math_renderer = "mathml"

# API -------------------------------------------------------------------------------------------

autosummary_generate = True
autosummary_imported_members = True  # a package shows what its __init__ takes from private modules
autosummary_ignore_module_all = False
# Docstrings say what arguments are. Annotations would repeat it, longer, and link to pages of
# other projects, for which the build would have to ask the internet.
autodoc_typehints = "none"
numpydoc_show_class_members = False  # the template of a class lists them
nitpick_ignore_regex = [
    (r"py:.*", r"(sklearn|numpy|scipy|pandas|matplotlib|joblib|torch|collections|unittest)\..*"),
    # Constants of a module that are no part of its interface.
    (r"py:data", r"[A-Z_]+"),
    # Fields of a tuple are described in its docstring and have no entry of their own.
    (r"py:attr", r"dm2l\.nuclear\.Evaluation\..*"),
]

# Gallery ---------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("dm2l",),
    "reference_url": {"dm2l": None},
    "backreferences_dir": "gallery/used_in",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e6,
    "write_computation_times": False,
    "show_memory": False,
    "image_srcset": ["2x"],
    "thumbnail_size": (400, 280),
    "nested_sections": False,
}

# Looks -----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"dm2l {version}"
html_static_path = ["_static"]
html_css_files = ["dm2l.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")  # pages that teach come first
html_show_sourcelink = False
html_copy_source = False
html_domain_indices = False  # the API page lists everything, by task
html_favicon = "_static/mark.svg"
html_theme_options = {
    "logo": {
        "text": f"dm2l {version}",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
        "alt_text": "dm2l",
    },
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button-field", "theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 1,
    "navigation_with_keys": False,
}
toc_object_entries_show_parents = "hide"
html_sidebars = {
    page: [] for page in ("index", "research/errata", "research/benchmarks", "research/speed")
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def skip_member(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leave out what a class has from scikit-learn or from being a tuple, and nobody looks up."""
    # Requests of metadata are made by scikit-learn, their texts point into its own pages.
    foreign = str(getattr(obj, "__module__", "")).startswith("sklearn.") or (
        name.startswith("set_") and name.endswith("_request")
    )
    return skip or foreign or str(getattr(obj, "__doc__", "")).startswith("Alias for field")


def join_lines(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put lines together of which the first ends in a backslash, as a raw docstring keeps it."""
    lines[:] = "\n".join(lines).replace("\\\n", "").split("\n")


def tidy_page(app: Any, page: str, source: list[str]) -> None:
    """Leave out what a page has for GitHub and for doctest only."""
    # Files of the repository are not on the site: the words of a link to them stay.
    link = r"\[([^\]]+)\]\((?:\.\./)+(?:src|tests|benchmarks|examples)/[^)]*\)"
    # The empty line that ends an example for doctest.
    source[0] = re.sub(link, r"\1", source[0]).replace("\n\n```\n", "\n```\n")


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", join_lines, priority=100)  # before numpydoc
    app.connect("source-read", tidy_page)
