"""The nodes of a session that were lost or ended while it ran, and what that meant to its tasks.

Owns the reading of these facts from the records, and their story. Runs in the caller's process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sundog import events
from sundog.observe.index import Index
from sundog.observe.why import Story, Telling
from sundog.observe.words import in_words
from sundog.plain import JsonObject, plain

_NAMES_MAX = 5


@plain(frozen=True)
class NodeFacts(Telling):
    """What is known of a node that is gone."""

    node_id: str
    reason: str
    ago_s: float
    attempts: int  # attempts that ran there
    told: int  # of these, known only from what others tell
    again: Sequence[str] = ()  # functions of which results were made again elsewhere
    ended: bool = False  # on purpose: it was idle, or was told to leave

    @property
    def words(self) -> str:
        """The node and the reason, in a few words."""
        return f"node {self.node_id[:8]}, which was {'ended' if self.ended else 'lost'} ({self.reason.rstrip('.')})"

    def story(self) -> Story:
        """Why it is gone, and what that meant."""
        steps = [
            self.reason or "nobody told why",
            f"attempts at tasks and calls that ran there: {self.attempts}",
        ]
        if self.told:
            steps.append(
                f"of these, known only from the records of other processes (no processor time, no memory): {self.told}"
            )
        if self.again:
            steps.append(f"what ran again after its attempt there: {', '.join(self.again)}")
        verdict = f"was {'ended' if self.ended else 'lost'} {in_words(self.ago_s)} before the last record"
        next_ = ("sundog timeline --html", "sundog list nodes")
        return Story(f"node {self.node_id}", verdict, tuple(steps), next_)


def find(index: Index, now_s: float) -> dict[str, NodeFacts]:
    """Every node that is gone, by its id."""
    newest: dict[str, tuple[float, JsonObject]] = {}
    for node_id, at_s, text in index.rows(
        "SELECT subject, at_s, json FROM facts WHERE kind = 'node' ORDER BY at_s"
    ):
        newest[node_id] = (at_s, json.loads(text)["row"])
    return {
        node_id: _gone(index, row, max(0.0, now_s - at_s))
        for node_id, (at_s, row) in newest.items()
        if row["state"] == "DEAD"
    }


def _gone(index: Index, row: JsonObject, ago_s: float) -> NodeFacts:
    there = "FROM attempts a JOIN processes p ON p.id = a.process WHERE p.node_id = ?"
    node = bytes.fromhex(row["node_id"])
    [(attempts, told)] = index.rows(f"SELECT count(*), sum(a.flags & {events.TOLD} != 0) {there}", node)
    again = index.rows(
        "SELECT n.text, count(*) FROM attempts b JOIN names n ON n.id = b.name WHERE b.attempt > 0 AND EXISTS "
        f"(SELECT 1 {there} AND a.task_id = b.task_id AND a.attempt < b.attempt) GROUP BY 1 ORDER BY 2 DESC",
        node,
    )
    names = [f"{name}() {count} time{'s' * (count != 1)}" for name, count in again[:_NAMES_MAX]]
    reason, ended = str(row.get("state_message") or ""), bool(row.get("is_ended"))
    return NodeFacts(row["node_id"], reason, ago_s, attempts, told or 0, names, ended)
