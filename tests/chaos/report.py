"""What a run comes to: counts, and every violation with the command that plays it again.

A plain value that adds up over threads, sessions and processes (as JSON). No I/O.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Report:
    """Counts of one session, or of many."""

    counts: Counter[str] = field(default_factory=Counter)  # sessions, programs, moves, reads, retries, …
    kills: Counter[str] = field(default_factory=Counter)  # by what was killed or removed
    errors: Counter[str] = field(default_factory=Counter)  # true ones, by class
    violations: list[str] = field(default_factory=list)
    stalls: list[str] = field(default_factory=list)  # long waits, explained: no violation by themselves

    def add(self, other: Report) -> None:
        """Count another report in."""
        self.counts.update(other.counts)
        self.kills.update(other.kills)
        self.errors.update(other.errors)
        self.violations.extend(other.violations)
        self.stalls.extend(other.stalls)

    def to_json(self) -> str:
        """One line that `from_json` reads."""
        parts = (dict(self.counts), dict(self.kills), dict(self.errors), self.violations, self.stalls)
        return json.dumps(parts)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that another process wrote."""
        counts, kills, errors, violations, stalls = json.loads(text)
        return cls(Counter(counts), Counter(kills), Counter(errors), violations, stalls)

    def text(self) -> str:
        """The whole, for people."""
        lines = [
            _line("sessions", self.counts["sessions"]),
            _line("programs", self.counts["programs"], f"{self.counts['moves']:,} moves"),
            _line("reads", self.counts["reads"], f"{self.counts['values']:,} gave the model's value"),
            _line("kills", sum(self.kills.values()), _parts(self.kills)),
            _line(
                "signals", self.counts["signals"], f"{self.counts['moves left']:,} moves left by an exception"
            ),
            _line("retries", self.counts["retries"]),
            _line("reconstructions", self.counts["reconstructions"]),
            _line("errors", sum(self.errors.values()), _parts(self.errors)),
            _line("violations", len(self.violations)),
        ]
        for number, stall in enumerate(self.stalls, 1):
            lines.append(f"\nstall {number}: {stall}")
        for number, violation in enumerate(self.violations, 1):
            lines.append(f"\nviolation {number}: {violation}")
        return "\n".join(lines)


def _line(name: str, count: int, detail: str = "") -> str:
    return f"{name:<16}{count:>9,}" + (f"   {detail}" if detail else "")


def _parts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common())
