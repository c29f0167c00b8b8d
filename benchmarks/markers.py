"""Puts text between the two markers of a page. Pure but for `update_file`. Run by the runner."""

from __future__ import annotations

from pathlib import Path

START = "<!-- bench:start -->"
END = "<!-- bench:end -->"


def replace_section(text: str, section: str) -> str:
    """`text` with what stands between the markers replaced.

    Raises ValueError unless there is exactly one pair of markers, in order.
    """
    if text.count(START) != 1 or text.count(END) != 1 or text.index(START) > text.index(END):
        raise ValueError(
            f"the page needs the lines {START!r} and {END!r}, once each and in this order, to know where "
            "the benchmark table goes; add them and run again with --from-json"
        )
    before, rest = text.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n{section.strip()}\n{END}{after}"


def update_file(path: Path, section: str) -> None:
    path.write_text(replace_section(path.read_text(encoding="utf-8"), section), encoding="utf-8")
