# SPDX-License-Identifier: Apache-2.0
"""Settings of the documentation's site: `make site` builds it from this folder, offline."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

MATHML = "http://www.w3.org/1998/Math/MathML"
ROOT = Path(__file__).resolve().parent.parent

project = "multipanda_py"
author = "the authors of multipanda_py"
version = release = re.findall(r"<version>(.*)</version>", (ROOT / "package.xml").read_text())[0]
extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"{project} {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
exclude_patterns = ["requirements.txt"]
# Links within a page name headings as GitHub does.
myst_heading_anchors = 3
# Read, not imported: needs neither ROS nor pinocchio.
autoapi_dirs = ["../multipanda_py"]
autoapi_generate_api_docs = False
autoapi_options = ["members", "show-inheritance"]
_shown = {
    "cell", "control", "controllets", "identification", "planning", "robots", "simulation",
}  # fmt: skip
_rooms = {path.parent.name for path in ROOT.glob("multipanda_py/*/__init__.py")}
autoapi_ignore = [f"*/multipanda_py/{room}/*" for room in sorted(_rooms - _shown)]
suppress_warnings = ["autoapi.python_import_resolution"]
autoapi_python_class_content = "class"
add_module_names = False
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_drawn(node))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f"<div>{_drawn(node, as_block=True)}</div>\n")
    raise nodes.SkipNode


def _drawn(node: nodes.Element, as_block: bool = False) -> str:
    try:
        return with_indices_beside(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
        return ""


def with_indices_beside(mathml: str) -> str:
    r"""Return an equation whose letters with accents have their indices beside them.

    docutils puts that of :math:`\dot x_d` below the letter, as those of sums.
    """
    ElementTree.register_namespace("", MATHML)
    named = re.compile(r"&(?!lt;|gt;|amp;)\w+;")  # which XML does not know
    equation = ElementTree.fromstring(named.sub(lambda name: unescape(name[0]), mathml))
    for below in list(equation.iter(f"{{{MATHML}}}munderover")):
        letter, index, accent = below
        if letter.tag == f"{{{MATHML}}}mo":  # of a sum, its limits
            continue
        below[:] = [ElementTree.Element(f"{{{MATHML}}}mover", accent="true"), index]
        below[0].extend([letter, accent])
        below.tag = f"{{{MATHML}}}msub"
    return ElementTree.tostring(equation, encoding="unicode")


def _own_readme(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = source[0].replace("(../README.md", "(overview.md")


def setup(app: Sphinx) -> None:
    """Have equations drawn by the browser itself, without a script from elsewhere."""
    app.connect("source-read", _own_readme)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
