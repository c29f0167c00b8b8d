"""The table of settings in docs/settings.md, made from `sundog.config`.

Owns the table between the page's two markers; the words around it are the author's. ``python -m
tests.docs.settings`` writes it, and `test_docs` fails while the page says something else. Whether a setting has
an effect is read from the package itself: somewhere outside config.py a module takes that attribute, or that key of
the settings that a worker is sent.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from sundog.config import Setting, describe

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "sundog"
PAGE = ROOT / "docs" / "settings.md"
START = "<!-- settings:start -->"
END = "<!-- settings:end -->"


def attributes_of_settings(source: str) -> set[str]:
    """The attributes that a module takes of something called ``config``, ``self.config``, ``spec["config"]``, …"""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and "config" in (_key(node.value), _name(node.value)):
            found.add(_key(node))
        if isinstance(node, ast.Subscript) and _name(node.value) == "settings":
            found.add(_key(node))
        if isinstance(node, ast.Attribute):
            holder = node.value
            if isinstance(holder, ast.Call):  # config.load().temp_dir
                holder = holder.func
                if isinstance(holder, ast.Attribute) and holder.attr == "load":
                    found.add(node.attr)
                    continue
            if _name(holder) == "config":
                found.add("engine" if node.attr == "engine_asked" else node.attr)
    return found


def _name(node: ast.expr) -> str:
    """The last name of ``name`` or ``x.name``; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _key(node: ast.expr) -> str:
    """The text between the brackets of ``x["text"]``; "" of anything else."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def settings_in_use() -> set[str]:
    """The settings that some module of the package reads."""
    modules = (path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "config.py")
    return {name for path in modules for name in attributes_of_settings(path.read_text(encoding="utf-8"))}


def make_table(settings: list[Setting], in_use: set[str]) -> str:
    """The settings as a Markdown table, in the order of their declaration."""
    lines = ["| setting | type | default | what it does |", "|---|---|---|---|"]
    for each in settings:
        default = f'`"{each.default}"`' if isinstance(each.default, str) else f"`{each.default}`"
        later = "" if each.name in in_use else " *(Accepted; has no effect yet.)*"
        lines.append(f"| `{each.name}` | {each.type} | {default} | {each.doc}{later} |")
    return "\n".join(lines)


def put_table(page: str, table: str) -> str:
    """The page with `table` between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"docs/settings.md needs the markers {START} and {END}, in this order.")
    return f"{before}{START}\n{table}\n{END}{after}"


def current_page() -> str:
    """What docs/settings.md ought to say."""
    return put_table(PAGE.read_text(encoding="utf-8"), make_table(describe(), settings_in_use()))


if __name__ == "__main__":
    PAGE.write_text(current_page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)
