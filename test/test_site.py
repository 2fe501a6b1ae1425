# SPDX-License-Identifier: Apache-2.0
"""Documentation: table of contents, links, examples and messages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

pytestmark = pytest.mark.inline

DOC = ROOT / "doc"
PAGES = sorted(DOC.rglob("*.md"))
CODE = re.compile(r"^```.*?^```", re.M | re.S)


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_table_of_contents():
    listed = [
        entry
        for block in re.findall(r"```\{toctree\}(.*?)```", (DOC / "index.md").read_text(), re.S)
        for entry in block.split("\n\n", 1)[1].split()
    ]
    pages = {str(page.relative_to(DOC).with_suffix("")) for page in PAGES} - {"index"}
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.stem
)
def test_link_targets_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        file = file / "README.md" if file.is_dir() else file
        assert file.is_file(), target
        assert not anchor or anchor in anchors(file), target


def test_check_links_reports_missing_targets_and_pictures(tmp_path):
    def check():
        return subprocess.run(
            [sys.executable, str(ROOT / "tools" / "check_links.py"), str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert "has no pages" in check().stderr
    (tmp_path / "b").mkdir()
    (tmp_path / "a.png").touch()
    (tmp_path / "b" / "b.html").write_text('<h1 id="here">b</h1><a href="../a.html">a</a>')
    page = '<img src="a.png"><a href="b/b.html#here">b</a><a href="https://else.where/x">x</a>'
    (tmp_path / "a.html").write_text(page)
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    broken = page + '<a href="b/b.html#gone">b</a><a href="#top">t</a><img src="c%20c.png">'
    (tmp_path / "a.html").write_text(broken)
    done = check()
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "check_links: a.html: #top: no such anchor",
        "check_links: a.html: b/b.html#gone: no such anchor",
        "check_links: a.html: c%20c.png",
    ]


@pytest.mark.parametrize("kind", ["controllets", "controllets/features"])
def test_every_controllet_and_feature_has_documented_equation(kind):
    text = (DOC / "laws.md").read_text()
    folder = kind.replace("/", ".")
    shown = re.findall(rf"autoapiclass:: multipanda_py\.{folder}\.(\w+)\.([A-Z]\w+)", text)
    files = {path.stem: path for path in (ROOT / "multipanda_py" / kind).glob("[a-z]*.py")}
    assert {file for file, _ in shown} == files.keys()
    for name, path in files.items():
        classes = [
            n for n in ast.parse(path.read_text()).body if (name, getattr(n, "name", "")) in shown
        ]
        assert any("::\n\n    " in ast.get_docstring(one) for one in classes), name


@pytest.mark.parametrize("page", ["api", "laws"])
def test_objects_of_api_pages_exist_with_docstring(page):
    named = re.findall(r":: (multipanda_py[\w.]*)\.(\w+)$", (DOC / f"{page}.md").read_text(), re.M)
    assert named
    for module, name in named:
        tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
        found = [node for node in tree.body if getattr(node, "name", "") == name]
        assert found, f"{module}.{name}"
        assert ast.get_docstring(found[0]), f"{module}.{name}"


def test_quick_start_moves_arm(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", (DOC / "quick_start.md").read_text(), re.S)
    exec(compile(code, "doc/quick_start.md", "exec"), {})
    displacement = [float(part) for part in capsys.readouterr().out.strip(" []\n").split()]
    assert displacement == pytest.approx([0.0, 0.0, 0.05], abs=0.005)


def test_gripper_page_moves_fingers(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", (DOC / "grippers.md").read_text(), re.S)
    exec(compile(code, "doc/grippers.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["True", "0.04"]


def bare(text: str) -> str:
    return re.sub(r"\.{3,}", "...", " ".join(text.split()))


def package_texts() -> list[str]:
    """Return every string of the package, with dots for formatted values."""
    texts = []
    for path in (ROOT / "multipanda_py").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "..." for p in node.values]
                texts.append(bare("".join(parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(bare(node.value))
    return texts


def test_messages_of_troubleshooting_page_exist_in_package():
    text = (DOC / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]*)` \|", text, re.M)
    assert len(messages) > 50
    all_texts = "\n".join(package_texts())
    assert [m for m in messages if bare(m).strip(" .") not in all_texts] == []


def test_container_installs_packages_of_quick_start():
    pip = [
        re.search(r"pip install (?:--no-cache-dir )?(\"mujoco.*?pylibfranka)", file.read_text())
        for file in (DOC / "quick_start.md", ROOT / "tools" / "Dockerfile")
    ]
    assert pip[0][1] == pip[1][1]
