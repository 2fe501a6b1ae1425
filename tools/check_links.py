# SPDX-License-Identifier: Apache-2.0
"""Check that the targets of all links, anchors and images of a built site exist.

Usage: check_links.py FOLDER. Links to other hosts are not followed, as the check is offline.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINK_ATTRIBUTES = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src"}


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the link and the anchor of an element."""
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif LINK_ATTRIBUTES.get(tag) == name:
                self.links.add(value)


def broken_links(folder: Path) -> list[str]:
    """Return the broken links of the site in a folder, one line of page and link each."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{path.relative_to(folder)}: {link}")
                continue
            expected = unquote(parts.fragment)
            if expected and target in pages and expected not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder)}: {link}: no such anchor")
    return broken


def main() -> int:
    """Check a folder; return 1 if it has broken links or no pages."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: check_links.py FOLDER\n")
        return 2
    folder = Path(sys.argv[1]).resolve()
    if not any(folder.rglob("*.html")):
        sys.stderr.write(f"check_links: {folder} has no pages\n")
        return 1
    broken = broken_links(folder)
    for line in broken:
        sys.stderr.write(f"check_links: {line}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
