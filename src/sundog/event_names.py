"""The file beside a ring: names that its events refer to by number, functions' own names, and notes.

Owns the reading of its lines, in whole or from a position on; `events.Ring` writes them. Pure reading, in any process.

::

    number<TAB>name<TAB>code[<TAB>function]    a name with the fingerprint of its code; the function's own name, if that
                                               is another
    word<TAB>{…}                               a note: facts that an event has no room for, as JSON
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_TEXT_MAX_CHARS = 8192


def note_line(kind: str, facts: dict[str, object]) -> bytes:
    """A note as a line of the file; long texts in it are cut."""
    import json

    short = {
        key: value[:_TEXT_MAX_CHARS] if isinstance(value, str) else value for key, value in facts.items()
    }
    return f"{kind}\t{json.dumps(short, default=repr)}\n".encode(errors="replace")


def read_names(path: str) -> dict[int, tuple[str, str]]:
    """The names that a ring's events refer to by number, each with the fingerprint of its code."""
    return read_more_names(path, 0)[0]


def read_more_names(path: str, position: int) -> tuple[dict[int, tuple[str, str]], int]:
    """The names in a ring's file of names from `position` on, and where the next are to be read."""
    import ast

    names: dict[int, tuple[str, str]] = {}
    for line, after in _lines(path, position):
        position = after
        parts = line.split("\t")
        with contextlib.suppress(ValueError, SyntaxError, IndexError):
            names[int(parts[0])] = (str(ast.literal_eval(parts[1])), parts[2])
    return names, position


def read_functions(path: str) -> dict[int, str]:
    """The functions' own names, by the numbers of those names that differ from them."""
    import ast

    found: dict[int, str] = {}
    for line, _ in _lines(path):
        parts = line.split("\t")
        if len(parts) == 4:
            with contextlib.suppress(ValueError, SyntaxError):
                found[int(parts[0])] = str(ast.literal_eval(parts[3]))
    return found


def read_notes(path: str) -> Iterator[tuple[str, JsonObject]]:
    """What a ring's process noted, oldest first: the kind of the note and its facts."""
    import json

    for line, _ in _lines(path):
        if not line[:1].isdigit():
            kind, _, text = line.partition("\t")
            with contextlib.suppress(ValueError):
                facts = json.loads(text)
                if isinstance(facts, dict):
                    yield kind, facts


def parse(data: bytes) -> tuple[list[tuple[int, str, str, str]], list[tuple[str, JsonObject]], int]:
    """A part of a file of names: names (number, text, code, function), notes, and how many bytes were whole lines."""
    import ast
    import json

    names: list[tuple[int, str, str, str]] = []
    notes: list[tuple[str, dict[str, object]]] = []
    whole = data.rfind(b"\n") + 1
    for line in data[:whole].decode(errors="replace").split("\n")[:-1]:
        with contextlib.suppress(ValueError, SyntaxError, IndexError):
            if line[:1].isdigit():
                parts = line.split("\t")
                own = str(ast.literal_eval(parts[3])) if len(parts) > 3 else ""
                names.append((int(parts[0]), str(ast.literal_eval(parts[1])), parts[2], own))
            else:
                kind, _, text = line.partition("\t")
                facts = json.loads(text)
                if isinstance(facts, dict):
                    notes.append((kind, facts))
    return names, notes, whole


def parse_names(data: bytes) -> dict[int, tuple[str, str]]:
    """The names in a file of names, as `read_names` gives them."""
    return {number: (text, code) for number, text, code, _ in parse(data)[0]}


def _lines(path: str, position: int = 0) -> Iterator[tuple[str, int]]:
    """The whole lines of a ring's file of names from `position` on, each with the position after it."""
    with contextlib.suppress(OSError), open(path + ".names", "rb") as file:
        file.seek(position)
        for line in file:
            if not line.endswith(b"\n"):
                break  # being written
            position += len(line)
            yield line.decode(errors="replace").rstrip("\n"), position
