"""Puts text between the two markers of a page. Pure but for `update_file`. Run by the runner."""

from __future__ import annotations

from pathlib import Path

START = "<!-- bench:start -->"
END = "<!-- bench:end -->"
WORK = "work"  # the section of the real programs


def replace_section(text: str, section: str, name: str = "bench") -> str:
    """`text` with what stands between the markers of this name replaced.

    Raises ValueError unless there is exactly one pair of markers, in order.
    """
    start, end = START.replace("bench", name), END.replace("bench", name)
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise ValueError(
            f"the page needs the lines {start!r} and {end!r}, once each and in this order, to know where "
            "the benchmark table goes; add them and run again with --from-json"
        )
    before, rest = text.split(start)
    after = rest.split(end)[1]
    return f"{before}{start}\n{section.strip()}\n{end}{after}"


def update_file(path: Path, section: str, name: str = "bench") -> None:
    path.write_text(replace_section(path.read_text(encoding="utf-8"), section, name), encoding="utf-8")
