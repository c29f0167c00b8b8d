"""Hooks of the site's build: what the pages say on a forge, said so that it holds on the site too.

Pages link to files of the repository that are not part of the site (examples, CONTRIBUTING.md). On the site such a
link becomes the file's name. Run by mkdocs, when the site is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parent
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page's text without links that lead out of docs/."""
    return drop_outside_links(markdown, (_DOCS / page.file.src_path).parent)


def drop_outside_links(markdown: str, folder: Path) -> str:
    """The text of a page in `folder`, each link to a file outside docs/ replaced by the words that it stood on."""

    def replaced(match: re.Match[str]) -> str:
        words, target = match.group(1), match.group(2)
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        path = (folder / target).resolve()
        return match.group(0) if path.is_relative_to(_DOCS.resolve()) else words

    return _LINK.sub(replaced, markdown)
