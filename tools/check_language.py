#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check docstrings, names and commit subjects against the writing rules of CONTRIBUTING.md.

``make check`` runs it. Each finding is one line: file, line, rule, text.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLAUSE = re.compile(r"(What|How|Where|Who|Whose|Which|Whether|When|Why)\b")
HEADLESS = re.compile(
    r"(What|How|Where|Who|Whose|Which|Whether|When|Why|Of|In|To|From|By|With|For|On|At|Until|As|"
    r"Those|It|That|Its|Their|Likewise)\b"
)
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Example|Thread):$")
ENTRY = re.compile(r"(\s+)\*{0,2}(\w+): (.+)$")
# Equations and code: a math directive, or an indented block after "::".
BLOCK = re.compile(r"\.\. math::(?:.|\n)*?(?=\n\n|\Z)|::\n(?:\s*\n)+(?:[ ]+\S.*(?:\n|\Z)|\s*\n)+")
# Words that no name contains: the glossary of doc/concepts.md has the term for each.
FORBIDDEN = {
    "asked", "doubts", "elsewhere", "felt", "heard", "least", "mistaken", "most", "patience",
    "said", "say", "says", "seen", "silence", "tell", "tells", "thing", "things", "told", "untold",
    "vague", "wanted",
}  # fmt: skip
ALLOWED = {
    "do_things",  # Word of the administration protocol of the simulated robot.
    "patience",  # Early stopping of a training.
}
MAX_WORDS = 30
MAX_SUBJECT = 72
CHECKED_COMMITS = 20

Finding = tuple[int, str, str]


def check_docstring(text: str, line: int, names: set[str] | None) -> Iterator[Finding]:
    """Yield the violations in a docstring.

    Args:
        text: Docstring.
        line: Line number of the docstring in its file.
        names: Names of the arguments; None if they are unknown.
    """
    if CLAUSE.match(text):
        yield line, "begin with a noun or an imperative, not with a clause", text.split("\n")[0]
    section = ""
    for number, row in enumerate(text.split("\n")):
        if SECTION.match(row.strip()):
            section = row.strip()
        entry = ENTRY.match(row)
        if not entry or section not in ("Args:", "Attributes:"):
            continue
        indent, name, description = entry.groups()
        if HEADLESS.match(description):
            yield line + number, "begin an argument with its noun", row.strip()
        if section == "Args:" and indent == "    " and names is not None and name not in names:
            yield line + number, "document an argument that exists", row.strip()
    prose = BLOCK.sub(". ", text)
    for sentence in re.split(r"(?<=[.!?])\s+", prose):
        words = len(re.findall(r"[A-Za-z']+", sentence))
        if words > MAX_WORDS:
            yield line, f"split a sentence of {words} words", " ".join(sentence.split())


def parameters_of(node: ast.AST) -> set[str] | None:
    """Return the argument names of a function or class; None if unknown."""
    if isinstance(node, ast.ClassDef):
        made = [one for one in node.body if getattr(one, "name", "") == "__init__"]
        if made:
            return parameters_of(made[0])
        fields = {
            one.target.id
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        return None if node.bases else fields
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return {one.arg for one in every}


def check_name(node: ast.AST) -> Iterator[Finding]:
    """Yield a violation if the name that a node defines contains a forbidden word."""
    name = ""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        name = node.name
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        name = node.attr
    parts = {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    if parts & FORBIDDEN and name not in ALLOWED:
        line = getattr(node, "lineno", 0)
        yield line, f"name it by a term of the field, not '{min(parts & FORBIDDEN)}'", name


def check_source(source: str) -> list[Finding]:
    """Return the violations in Python source code."""
    found: list[Finding] = []
    for node in ast.walk(ast.parse(source)):
        found += check_name(node)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                found += check_docstring(text, node.body[0].lineno, parameters_of(node))
    return sorted(found)


def check_commits() -> Iterator[str]:
    """Yield the newest commit subjects that are too long. Outside a git repository, yield none."""
    log = subprocess.run(
        ["git", "-C", str(ROOT), "log", f"-{CHECKED_COMMITS}", "--no-merges", "--format=%h %s"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > MAX_SUBJECT:
            yield f"{commit}: shorten the subject to {MAX_SUBJECT} characters: {subject}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "multipanda_py"])
    findings = list(check_commits())
    for path in parser.parse_args().paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            name = file.resolve().relative_to(ROOT)
            found = check_source(file.read_text())
            findings += [f"{name}:{line}: {rule}: {text}" for line, rule, text in found]
    print(*findings, sep="\n", end="\n" if findings else "")
    if findings:
        print(f"{len(findings)} violations; CONTRIBUTING.md has the rules", file=sys.stderr)
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
