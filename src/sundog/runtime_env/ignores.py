"""Which files of a folder are left out of its copy: `.gitignore`, `.rayignore` and `excludes`, as git reads them.

Owns: the order of the rules, and one sentence for each pattern that cannot be read. The patterns themselves are
translated by the library pathspec, imported when there is a first pattern. Refuses: following links, and regular
expressions whose matching time explodes (`quick` rewrites them). Runs in the submitting process, on the calling
thread.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from sundog import notices

# Folders that are left out unless a rule says otherwise (`!venv/`).
DEFAULT_EXCLUDES = frozenset({".git", ".venv", "venv", "__pycache__"})
IGNORE_FILES = (".gitignore", ".rayignore")

# A pattern, and whether what it matches is left out (or kept in spite of an earlier rule: `!keep.log`).
Rule: TypeAlias = tuple[re.Pattern[str], bool]
# The rules of one file, with the length of the path of its folder: its patterns are relative to that.
Layer: TypeAlias = tuple[int, tuple[Rule, ...]]


def check_excludes(patterns: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of `excludes=[...]`.

    Raises:
        ValueError: a pattern that cannot be read.
    """
    rules = []
    for pattern in patterns:
        try:
            rules.append(_rule(pattern))
        except ValueError as exc:
            raise ValueError(f"runtime_env['excludes'] has the pattern {pattern!r}, {exc}.") from None
    return tuple(rule for rule in rules if rule is not None)


def read_layers(folder: str, base: str, files: Sequence[str] = IGNORE_FILES) -> list[Layer]:
    """The rules of the ignore files in `folder`, whose path below the root is `base` ("" or "a/b/").

    A line that cannot be read is left out with a warning, as git leaves it out without one.
    """
    layers = []
    for name in files:
        path = os.path.join(folder, name)
        try:
            # A link is not followed: it may lead out of the folder. A pipe of that name must not block this
            # process.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        rules = []
        for number, line in enumerate(lines, 1):
            try:
                rule = _rule(line)
            except ValueError as exc:
                _warn_once(f"{path}, line {number}: the pattern {line!r} is left out, {exc}.")
                continue
            if rule is not None:
                rules.append(rule)
        if rules:
            layers.append((len(base), tuple(rules)))
    return layers


def is_left_out(path: str, is_dir: bool, layers: Sequence[Layer]) -> bool:
    """Whether the last rule that matches leaves `path` (relative to the root) out; its folders were not."""
    full = path + "/" if is_dir else path
    for start, rules in reversed(layers):
        name = full[start:] if start else full
        for regex, leaves_out in reversed(rules):
            if regex.match(name):
                return leaves_out
    return is_dir and path.rpartition("/")[2] in DEFAULT_EXCLUDES


@lru_cache(maxsize=64)
def _warn_once(text: str) -> None:
    notices.warn(text)


@lru_cache(maxsize=4096)
def _rule(line: str) -> Rule | None:
    """One line as git reads it; None for a comment or an empty one.

    Raises:
        ValueError: why it cannot be read.
    """
    import pathspec

    with warnings.catch_warnings():
        # What `re` thinks of a set such as [[:alpha:]] is of no use to the user.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            found = list(pathspec.GitIgnoreSpec.from_lines([line]).patterns)
            pattern = found[0] if found else None
            if pattern is None or pattern.include is None or pattern.regex is None:
                return None
            return re.compile(quick(pattern.regex.pattern), pattern.regex.flags), pattern.include
        except re.error as exc:
            raise ValueError(f"which is not a pattern of a .gitignore: {exc.msg}") from None
        except ValueError:
            raise ValueError("which is not a pattern of a .gitignore") from None


_STAR, _DIRS, _FRONT = "[^/]*", "(?:/.+)?", "(?:.+/)?"
_TOKEN = re.compile(r"\[\^/\]\*|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def quick(regex: str) -> str:
    """A regular expression that pathspec made for one pattern, with the same meaning, that never looks back far.

    `*a*a*a*b` becomes a chain of `.*`, and a name of many a's takes time to the power of the number of stars. But
    if the text between two stars is found at all, its first place is as good as any later one, because the next
    star takes up the difference. So all but the last star of a segment, and all but the last `**`, take the first
    place and keep it (an atomic group).
    """
    pieces = [_quick_stars(piece) for piece in regex.split(_DIRS)]
    if pieces[0].startswith("^" + _FRONT) and len(pieces) > 1:
        pieces[0] = f"^(?>(?:.+?/)??{pieces[0][1 + len(_FRONT) :]}(?=/))"
    middle = "".join(f"(?>(?:/.+?)??{piece}(?=/))" for piece in pieces[1:-1])
    return pieces[0] + (middle + _DIRS + pieces[-1] if len(pieces) > 1 else "")


def _quick_stars(regex: str) -> str:
    out: list[str] = []
    runs: list[str] = []  # what followed each star of the segment so far
    for token in [*_TOKEN.findall(regex), "/"]:
        if token == _STAR:
            runs.append("")
            continue
        if token[:2] == "[^" and token[2] != "/":
            # As in git, a set never matches a slash; a bracket that was the first character must not end the
            # set now.
            token = "[^/" + ("\\" if token[2] == "]" else "") + token[2:]
        if token in "/()|$^" or not runs:
            out += [f"(?>[^/]*?{run})" for run in runs[:-1] if run]
            out += [_STAR + runs[-1]] if runs else []
            runs = []
            out.append(token)
        else:
            runs[-1] += token
    return "".join(out[:-1])
