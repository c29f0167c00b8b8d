"""The tables of docs/protocol.md, made from the rows of `sundog.wire` and the tables of the programs.

Owns what stands between the page's markers; the words around it are the author's. ``python -m tests.docs.protocol``
writes it, and `test_protocol` fails while the page says something else. The handler of a message is read from the
source: the file with ``on(Row, handler)`` (``answered(Row, handler)`` for a request).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from sundog.wire import control, members, peers, requests, zygote
from sundog.wire.row import Row

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "sundog"
PAGE = ROOT / "docs" / "protocol.md"
# The programs' tables.
TABLES = (
    "node/messages.py",
    "node/requests.py",
    "owner/messages.py",
    "engines/messages.py",
    "worker/messages.py",
    "worker/zygote.py",
    "node/member.py",
)
# Read without a table: the first message of a connection.
BY_HAND = {"Welcome": "engines/local.py", "Refused": "engines/local.py"}
# The sections of the page, by the name in their markers.
SECTIONS: dict[str, tuple[ModuleType, type[Row]]] = {
    "to-node": (control, control.ToNode),
    "from-node": (control, control.FromNode),
    "to-zygote": (zygote, zygote.ToZygote),
    "from-zygote": (zygote, zygote.FromZygote),
    "to-member": (members, members.ToMember),
    "from-member": (members, members.FromMember),
    "requests": (requests, requests.Request),
    "peers": (peers, peers.ToPeer),
}


def rows(module: ModuleType, base: type[Row]) -> list[type[Row]]:
    """The rows of a module that travel in one direction, in the order of their definition."""
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, base)]
    return [each for each in found if each is not base]


def routes(source: str) -> Iterator[str]:
    """The names of the rows that a module has in its table: ``on(control.Hello, …)``, ``answered(ask.Nodes, …)``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("on", "answered") and node.args:
                row = node.args[0]
                if isinstance(row, ast.Attribute):
                    yield row.attr
                elif isinstance(row, ast.Name):
                    yield row.id


def handlers() -> dict[str, list[str]]:
    """The files whose table has a row, by the name of its class."""
    found = {name: [file] for name, file in BY_HAND.items()}
    for file in TABLES:
        for name in routes((PACKAGE / file).read_text(encoding="utf-8")):
            found.setdefault(name, []).append(file)
    return found


def shown(row: type[Row]) -> str:
    """What a row says: the sentences of its docstring, on one line."""
    return " ".join(part.strip() for part in (row.__doc__ or "").split("\n") if part.strip())


def make_table(module: ModuleType, base: type[Row], handled: dict[str, list[str]]) -> str:
    """The rows of one direction as a Markdown table."""
    lines = ["| message | fields | says | handled in |", "|---|---|---|---|"]
    for row in rows(module, base):
        name = f"`{row.kind}`" + (" + fd" if row.fds else "")
        fields = ", ".join(f"`{field}`" for field in row.fields)
        where = ", ".join(f"`{file}`" for file in handled.get(row.__name__, []))
        lines.append(f"| {name} | {fields} | {shown(row)} | {where} |")
    return "\n".join(lines)


def put_tables(page: str, tables: dict[str, str]) -> str:
    """The page with each table between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    for name, table in tables.items():
        start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"docs/protocol.md needs the markers {start} and {end}, in this order.")
        page = f"{before}{start}\n{table}\n{end}{after}"
    return page


def current_page() -> str:
    """What docs/protocol.md ought to say."""
    handled = handlers()
    tables = {name: make_table(module, base, handled) for name, (module, base) in SECTIONS.items()}
    return put_tables(PAGE.read_text(encoding="utf-8"), tables)


if __name__ == "__main__":
    PAGE.write_text(current_page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)
