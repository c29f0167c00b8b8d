"""Names on their way to a terminal: what is no visible character is written as its escape.

Owns the one rule for names of tasks, actors, classes, resources and sessions wherever they are shown: in the prefix of
a log line, the text of an error, a table, a process title. A name with a line feed could otherwise forge a line of
its own, one with an escape sequence could hide what stands before it. Refuses to change what a program prints itself:
its colours and its lines are its own. Pure; any process, any thread.
"""

from __future__ import annotations


def printable(name: str) -> str:
    """`name` with each character that is not visible as its escape; most names are themselves.

    >>> printable("resize")
    'resize'
    >>> print(printable("a\\x1b[2Jb\\n(node) all is well"))
    a\\x1b[2Jb\\n(node) all is well
    """
    if name.isprintable():
        return name
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name])
