"""The troubles of a session, the most interesting first: what `sundog why` without an id tells of.

Owns the order: what can never run, what a killed session was doing, what memory killed, nodes that were lost, what
failed (by how often), actors that died by themselves, what runs far longer than its like, what waits. Asks the gatherer
for facts. Runs in the caller's process.
"""

from __future__ import annotations

from sundog.observe import why
from sundog.observe.why_facts import Gatherer
from sundog.plain import plain

_SHOWN = 8
_STRAGGLER = 5.0
_STRAGGLER_LEAST_S = 1.0


@plain(frozen=True)
class Trouble:
    """One trouble: in a line, and whose id has the whole story."""

    text: str
    id: str


def find(gatherer: Gatherer) -> list[Trouble]:
    """The troubles that the facts show, the most interesting first."""
    killed = _killed(gatherer)
    found = [
        *_infeasible(gatherer),
        *_left_running(gatherer),
        *[each for each, telling in killed if telling],
        *_lost_nodes(gatherer),
        *_failed(gatherer),
        *[each for each, telling in killed if not telling],
        *_dead_actors(gatherer),
        *_stragglers(gatherer),
        *_waiting(gatherer),
    ]
    return found[:_SHOWN]


def _infeasible(gatherer: Gatherer) -> list[Trouble]:
    never = [dict(each["shape"]) for each in gatherer.pending if each["infeasible"]]
    tasks = [each for each in gatherer.told.values() if each["resources"] in never]
    shown: dict[str, Trouble] = {}
    for each in tasks:
        shown.setdefault(each["name"], Trouble(f"{each['name']}() can never run here", each["task"]))
    return list(shown.values())


def _killed(gatherer: Gatherer) -> list[tuple[Trouble, bool]]:
    """Processes that died, and whether that says more than the failures of tasks do."""
    found = gatherer.index.rows(
        "SELECT subject, json_extract(json, '$.row.pid'), json_extract(json, '$.row.exit_type'), "
        "json_extract(json, '$.last_task') FROM facts WHERE kind = 'worker' AND json_extract(json, '$.row.exit_type') "
        "IN ('NODE_OUT_OF_MEMORY', 'SYSTEM_ERROR') AND json_extract(json, '$.row.worker_type') = 'WORKER' "
        "ORDER BY json_extract(json, '$.row.exit_type'), at_s DESC LIMIT 3"
    )
    words = {
        "NODE_OUT_OF_MEMORY": "was killed because memory ran short",
        "SYSTEM_ERROR": "died under its task",
    }
    troubles = []
    for subject, pid, type_, last in found:
        telling = bool(last) or type_ != "SYSTEM_ERROR"
        text = f"the process with pid {pid} {words[type_] if telling else 'died'}"
        troubles.append((Trouble(text, subject), telling))
    return troubles


def _lost_nodes(gatherer: Gatherer) -> list[Trouble]:
    return [
        Trouble(f"node {id_[:8]} was lost", id_)
        for id_, each in gatherer.lost_nodes.items()
        if each.again or each.told
    ]


def _failed(gatherer: Gatherer) -> list[Trouble]:
    found = gatherer.index.rows(
        "SELECT n.text, count(*), lower(hex(max(a.task_id))) FROM attempts a LEFT JOIN names n ON n.id = a.name "
        "WHERE a.flags & 1 AND NOT a.flags & 4 GROUP BY a.name ORDER BY 2 DESC LIMIT 4"
    )
    return [Trouble(f"{name}() failed {count} time{'s' * (count != 1)}", task) for name, count, task in found]


def _dead_actors(gatherer: Gatherer) -> list[Trouble]:
    found = []
    for row in gatherer.actors.values():
        context: dict[str, object] = next(iter((row.get("death_cause") or {}).values()), {})
        reason = context.get("reason", "WORKER_DIED") if context else ""
        if row["state"] == "DEAD" and reason not in (
            "",
            "REF_DELETED",
            "RAY_KILL",
            "OWNER_DIED",
            "UNSPECIFIED",
        ):
            found.append(Trouble(f"actor {row['class_name']} died", row["actor_id"]))
    return found[:3]


def _stragglers(gatherer: Gatherer) -> list[Trouble]:
    if not gatherer.opened.is_live:
        return []
    found = []
    rows, _ = gatherer.query.rows([("state", "=", "RUNNING")], 1000, gatherer.unfinished, detail=True)
    for row in rows:
        figures = gatherer.usage["functions"].get(row["name"])
        so_far = gatherer.now - (row.get("start_time_ms") or 0) / 1000
        if figures and so_far > max(_STRAGGLER * figures["duration_s"]["p95"], _STRAGGLER_LEAST_S):
            text = f"{row['name']}() has run for {so_far:.1f} s, where {figures['duration_s']['mean']:.2g} s is usual"
            found.append(Trouble(text, row["task_id"]))
    return found[:3]


def _waiting(gatherer: Gatherer) -> list[Trouble]:
    found: dict[tuple[str, str], Trouble] = {}
    for each in gatherer.told.values():
        age = gatherer.now - each["submit_s"]
        if gatherer.is_elsewhere and bytes.fromhex(each["task"]) in gatherer.query.base.begun:
            continue  # Home knows that it has not ended; what its process began last says that it runs
        if age > _STRAGGLER_LEAST_S and each["state"].startswith("PENDING"):
            text = f"{each['name']}() has waited for {age:.1f} s ({each['state']})"
            found.setdefault((each["name"], each["state"]), Trouble(text, each["task"]))
    return list(found.values())[:3]


def _left_running(gatherer: Gatherer) -> list[Trouble]:
    if gatherer.is_running:
        return []
    rows, _ = gatherer.query.rows([("error_type", "=", "WORKER_DIED")], 1000, (), detail=False)
    left = [row for row in rows if "when its session ended" in (row.get("error_message") or "")]
    return [
        Trouble(f"{row['name']}() was running when the session ended", row["task_id"]) for row in left[:3]
    ]


def story_of_nothing(gatherer: Gatherer) -> why.Story:
    """The story of a session without trouble."""
    counts = gatherer.index.rows("SELECT sum(count) FROM counts")[0][0] or 0
    return why.Story(
        f"session {gatherer.opened.name}",
        f"no trouble found: {counts} attempts ended well",
        (),
        ("sundog summary tasks", "sundog timeline --html"),
    )
