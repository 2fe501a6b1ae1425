# SPDX-License-Identifier: Apache-2.0
"""Whether every link, anchor and picture of a built site is there: check_links.py FOLDER.

Links to other hosts are not followed: the site is built and checked offline.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LEADING = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src"}


class Page(HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element links to and is called."""
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif LEADING.get(tag) == name:
                self.links.add(value)


def dead_links(folder: Path) -> list[str]:
    """Return what leads nowhere, as lines of page and link.

    Args:
        folder: Of the site.
    """
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                dead.append(f"{path.relative_to(folder)}: {link}")
                continue
            expected = unquote(parts.fragment)
            if expected and target in pages and expected not in pages[target].anchors:
                dead.append(f"{path.relative_to(folder)}: {link}: no such anchor")
    return dead


def main() -> int:
    """Check a folder; return 1 if something leads nowhere, or there is nothing."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: check_links.py FOLDER\n")
        return 2
    folder = Path(sys.argv[1]).resolve()
    if not any(folder.rglob("*.html")):
        sys.stderr.write(f"check_links: {folder} has no pages\n")
        return 1
    dead = dead_links(folder)
    for line in dead:
        sys.stderr.write(f"check_links: {line}\n")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
