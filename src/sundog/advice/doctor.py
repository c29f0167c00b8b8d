"""`sundog.doctor()`: examine a session, and say what kept it from being faster.

Owns the examination: read the records, play the run, look for every fault. Runs in the caller's process; it
joins no session and changes nothing.
"""

from __future__ import annotations

from sundog.advice import (
    cluster,
    findings_actors,
    findings_data,
    findings_driver,
    findings_recursion,
    findings_resources,
    findings_retries,
    findings_serve,
    findings_stages,
    findings_tasks,
    findings_waits,
)
from sundog.advice.awaits import with_awaits
from sundog.advice.findings import Draft, Finder, weigh
from sundog.advice.path import by_function, critical_path, idle_share, parallelism
from sundog.advice.reading import read_run
from sundog.advice.report import COLUMNS, DoctorReport
from sundog.advice.run import Run
from sundog.advice.simulator import CannotPlay, play
from sundog.advice.source import Sources, place_of
from sundog.observe.index import Progress, opened
from sundog.observe.sessions import Opened, open_session
from sundog.plain import replaced

FINDERS: tuple[Finder, ...] = (
    findings_waits.get_in_loop,
    findings_waits.get_in_order,
    findings_waits.nested_get,
    findings_stages.get_between_stages,
    findings_stages.polling,
    findings_actors.one_actor,
    findings_actors.unbalanced_actors,
    findings_actors.actor_per_item,
    findings_tasks.tasks_too_small,
    findings_recursion.small_recursion,
    findings_tasks.stragglers,
    findings_retries.retries,
    findings_retries.resubmitted,
    findings_tasks.too_many_workers,
    findings_tasks.memory_bound,
    findings_resources.cpus_unused,
    findings_data.large_argument,
    findings_data.put_again,
    findings_data.closure,
    findings_data.spilling,
    findings_data.too_many_threads,
    findings_serve.blocking_code,
    findings_serve.hot_replica,
    findings_serve.batch_never_fills,
    findings_driver.serial_part,
    findings_driver.driver_bound,
)


def doctor(session: str | None = None) -> DoctorReport:
    """Examine a session: what kept it from being faster, what mending it gives.

    Args:
        session: its name or a part of it, its folder, or a file of `sundog session export`. By default the session
            that this program is in, else the newest.

    Returns:
        A report: print it, or leave it as the last line of a notebook's cell. `findings` has the rows.

    Raises:
        sundog.observe.sessions.NoSuchSession: there is none.
    """
    return examine_session(open_session(session or _own_session()))


def _own_session() -> str | None:
    from sundog import engines
    from sundog.owner import context

    if engines.current() is None:
        return None
    engine = engines.current()
    if engine is not None and engine.is_driver:
        engine.note_use()
    path = (context.facts.session or {}).get("path")
    return str(path) if path else None


def examine_session(chosen: Opened, told: Progress | None = None) -> DoctorReport:
    """The report on a session."""
    with opened(chosen.path, told) as index:
        run = read_run(chosen, index)
        elsewhere = cluster.find(index, run.length_s)
    report = examine(run)
    return replaced(report, findings=[*report.findings, *elsewhere]) if elsewhere else report


def examine(run: Run, sources: Sources | None = None) -> DoctorReport:
    """The report on a run."""
    files = sources or Sources()
    for file in _files(run):
        files.of(file)  # the loop may be in another file than the get that it repeats
    run = with_awaits(run, files)
    try:
        played_s = play(run).length_s
    except CannotPlay:
        played_s = 0.0
    drafts = _drafts(run, files) if played_s > 0 and run.nodes else []
    path = critical_path(run)
    return DoctorReport(
        session=run.name,
        length_s=run.length_s,
        played_s=played_s,
        tasks=run.tasks,
        cpus=run.cpus,
        cores=run.cores,
        idle_share=idle_share(run),
        critical_path=by_function(path),
        parallelism=parallelism(run, COLUMNS),
        findings=weigh(run, drafts, played_s),
        missed=run.missed,
        others=run.others,
        is_whole=bool(run.nodes),
    )


def _files(run: Run) -> list[str]:
    """The files of the program that the records name."""
    sites = {node.site for node in run.nodes} | {op.site for _, ops in run.owners() for op in ops}
    found = {place.file for site in sites if (place := place_of(site)) is not None}
    entry = run.entrypoint.split(" ")[0]
    return sorted(found | ({entry} if entry.endswith(".py") else set()))


def _drafts(run: Run, sources: Sources) -> list[Draft]:
    found: list[Draft] = []
    for finder in FINDERS:
        found.extend(finder(run, sources))
    return found


__all__ = ["FINDERS", "doctor", "examine", "examine_session"]
