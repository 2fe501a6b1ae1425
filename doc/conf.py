# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings of the documentation site, which `make site` builds offline."""

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
# Anchors of headings as on GitHub.
myst_heading_anchors = 3
# autoapi parses the package without an import, so neither ROS nor pinocchio is required.
autoapi_dirs = ["../multipanda_py"]
autoapi_generate_api_docs = False
autoapi_options = ["members", "show-inheritance"]
_documented = {
    "cell", "control", "controllets", "identification", "planning", "robots", "simulation",
}  # fmt: skip
_packages = {path.parent.name for path in ROOT.glob("multipanda_py/*/__init__.py")}
autoapi_ignore = [f"*/multipanda_py/{name}/*" for name in sorted(_packages - _documented)]
suppress_warnings = ["autoapi.python_import_resolution"]
autoapi_python_class_content = "class"
add_module_names = False
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_render(node))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f"<div>{_render(node, as_block=True)}</div>\n")
    raise nodes.SkipNode


def _render(node: nodes.Element, as_block: bool = False) -> str:
    try:
        return with_subscripts(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
        return ""


def with_subscripts(mathml: str) -> str:
    r"""Return an equation in which indices of accented letters are subscripts.

    docutils writes the index of :math:`\dot x_d` below the letter, as the limits of a sum.
    """
    ElementTree.register_namespace("", MATHML)
    entities = re.compile(r"&(?!lt;|gt;|amp;)\w+;")  # undefined in XML
    equation = ElementTree.fromstring(entities.sub(lambda entity: unescape(entity[0]), mathml))
    for element in list(equation.iter(f"{{{MATHML}}}munderover")):
        letter, index, accent = element
        if letter.tag == f"{{{MATHML}}}mo":  # limits of a sum
            continue
        element[:] = [ElementTree.Element(f"{{{MATHML}}}mover", accent="true"), index]
        element[0].extend([letter, accent])
        element.tag = f"{{{MATHML}}}msub"
    return ElementTree.tostring(equation, encoding="unicode")


def _replace_readme_links(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = source[0].replace("(../README.md", "(overview.md")


def setup(app: Sphinx) -> None:
    """Render equations as MathML, without an external script."""
    app.connect("source-read", _replace_readme_links)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
