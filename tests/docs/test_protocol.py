"""The page of the protocol is held against the rows, and every row against the tables and the senders."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sundog.wire import lanes
from sundog.wire.row import Row
from tests.docs import protocol

NAMES = [row.__name__ for module, base in protocol.SECTIONS.values() for row in protocol.rows(module, base)]


def made_in(source: str) -> set[str]:
    """The names that a module calls: ``Want(…)``, ``control.WantLeases(…)``."""
    called = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {each.id for each in called if isinstance(each, ast.Name)} | {
        each.attr for each in called if isinstance(each, ast.Attribute)
    }


def test_the_page_of_the_protocol_says_what_the_code_says() -> None:
    said = protocol.PAGE.read_text(encoding="utf-8")
    assert said == protocol.current_page(), "run: python -m tests.docs.protocol"


def test_a_missing_and_a_changed_row_change_the_table() -> None:
    class Base(Row):
        """Any."""

    class First(Base):
        """Says something."""

        field: int

    module = type(protocol)("module")
    vars(module).update(Base=Base)
    empty = protocol.make_table(module, Base, {})
    vars(module).update(First=First)
    table = protocol.make_table(module, Base, {"First": ["node/messages.py"]})
    assert table == f"{empty}\n| `first` | `field` | Says something. | `node/messages.py` |"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        protocol.put_tables("# Protocol\n", {"to-node": "| |"})


def test_a_route_is_found_however_the_row_is_named() -> None:
    source = "Table(on(control.Hello, node.hello), on(Fork, fork), answered(ask.Nodes, f), off(Bye, g))"
    assert list(protocol.routes(source)) == ["Hello", "Fork", "Nodes"]


def test_no_two_messages_have_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES) > 90


def test_every_message_has_a_handler() -> None:
    handled = protocol.handlers()
    assert [name for name in NAMES if name not in handled] == []
    assert [name for name in handled if name not in NAMES] == []


def test_every_message_is_sent_somewhere() -> None:
    sources = [path for path in protocol.PACKAGE.rglob("*.py") if path.parent.name != "wire"]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    made = set().union(*(made_in(text) for text in texts if any(f"{name}(" in text for name in NAMES)))
    # The reference table makes these as tuples: it is pure, and knows no rows.
    made |= {"Borrow", "Borrowed", "Unborrow", "Unhold"}
    assert [name for name in NAMES if name not in made] == []


def test_the_words_of_the_reference_table_are_rows() -> None:
    source = Path(protocol.PACKAGE / "state" / "references.py").read_text(encoding="utf-8")
    kinds = {row.kind: row for row in protocol.rows(*protocol.SECTIONS["peers"])}
    sent = [
        (node.elts[0].value, len(node.elts) - 1)
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "_send"
        for node in call.args
        if isinstance(node, ast.Tuple) and isinstance(node.elts[0], ast.Constant)
    ]
    assert len(sent) >= 4
    assert [each for each in sent if len(kinds[str(each[0])].fields) != each[1]] == []


def test_everything_on_the_lanes_is_on_the_page() -> None:
    page = protocol.PAGE.read_text(encoding="utf-8")
    on_lanes = [name for name in vars(lanes) if name.startswith(("R_", "EXTRA_"))]
    assert [name for name in on_lanes if f"`{name}`" not in page] == []
