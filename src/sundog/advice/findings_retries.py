"""Faults of retries: attempts that failed and were made again, by the runtime or by the program.

Pure but for the source files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import mode

from sundog.advice.findings import Draft
from sundog.advice.run import TASK, Run, RunNode, with_
from sundog.advice.source import Source, Sources, is_remote
from sundog.advice.turns import calls_of, names_in, targets_of

_WASTED = 0.03  # retries are told of from this share of their function's time on
_LEAST_TIMES = 3  # tasks that failed, to be told of if the program itself submits them again


def retries(run: Run, sources: Sources) -> Iterator[Draft]:
    """Attempts that failed and were made again."""
    for (name, site), group in _by_name(run).items():
        again = [node for node in group if node.attempts > 1]
        if not again:
            continue
        wasted = sum(node.wasted_s + node.pause_s for node in again)
        attempts = sum(node.attempts - 1 for node in again)
        if wasted < _WASTED * sum(node.work_s + node.pause_s for node in group):
            continue  # a rare failure that is made again is what retries are for
        kept = []
        for node in again:
            left = max(0.0, node.work_s - node.wasted_s)
            used = node.cpu_s * left / max(1e-9, node.work_s)
            kept.append(with_(node, work_s=left, pause_s=0.0, wasted_s=0.0, cpu_s=used))
        killed = any(node.lost for node in again)
        yield Draft(
            "retries",
            f"retries eat the run: {attempts} attempts of {name} failed and were made again",
            site,
            attempts,
            wasted,
            f"{len(again)} of {len(group)} tasks failed {attempts} times, {wasted:.2f} s of work and waiting were lost",
            ("Their processes died: see sundog why " if killed else "See why they fail: sundog why ")
            + f"{name}. Mend the cause, or retry the small part that fails inside the task instead of all of it.",
            run.changed(kept),
        )


def _by_name(run: Run) -> dict[tuple[str, str], list[RunNode]]:
    found: dict[tuple[str, str], list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        found[node.name, node.site].append(node)
    return found


# ---------------------------------------------------------------------- made again by the program itself
def resubmitted(run: Run, sources: Sources) -> Iterator[Draft]:
    """Tasks that failed, and that the program submitted again in a loop of its own."""
    by_name: dict[str, list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == TASK:
            by_name[node.name].append(node)
    for name, group in by_name.items():
        failed = [node for node in group if node.failed and node.attempts == 1 and node.count == 1]
        if len(failed) < _LEAST_TIMES:
            continue
        again = _made_again(group, failed)
        site = mode(node.site for node in again) if again else ""  # the line that tries again
        wasted = sum(node.work_s for node in failed)
        if 2 * len(again) < len(failed) or wasted < _WASTED * sum(node.work_s for node in group):
            continue
        if not _tries_again(sources, site):
            continue
        yield Draft(
            "retries",
            f"retries eat the run: {len(failed)} tasks of {name} failed, and the program submitted them again",
            site,
            len(failed),
            wasted,
            f"{len(failed)} of {len(group)} tasks failed, {wasted:.2f} s of work were lost",
            f"See why they fail: sundog why {name}. Mend the cause, or check what makes them fail before the long "
            "part of the task.",
            run.changed(with_(node, work_s=0.0, cpu_s=0.0, program=None) for node in again),
            sites=frozenset(node.site for node in group),
        )


def _made_again(group: Iterable[RunNode], failed: Iterable[RunNode]) -> list[RunNode]:
    """The tasks that took the place of failed ones: for each, the next one that was submitted after it had failed."""
    later = sorted(group, key=lambda node: node.submit_s)
    found: list[RunNode] = []
    position = 0
    for node in sorted(failed, key=lambda node: node.end_s):
        while position < len(later) and later[position].submit_s < node.end_s:
            position += 1
        if position == len(later):
            break
        found.append(later[position])
        position += 1
    return found


def _tries_again(sources: Sources, site: str) -> bool:
    """Whether the text of the program submits again what failed, at a line or in a loop around it."""
    found = sources.at(site)
    if found is None:
        return False
    source, place = found
    calls = [node for node in source.on(place.line) if is_remote(node)]
    if not calls:
        return False
    call: ast.AST = calls[-1]
    if any(isinstance(each, ast.ExceptHandler) for each in source.above(call)):
        return True
    loops = [each for each in source.above(call) if isinstance(each, ast.For | ast.While)]
    function = source.function_of(call)
    name = getattr(function, "name", "")
    for where, outer in calls_of(sources, source, name) if name else ():
        if any(isinstance(each, ast.ExceptHandler) for each in where.above(outer)):
            return True
        if where is source:
            loops += [each for each in source.above(outer) if isinstance(each, ast.For | ast.While)]
    return any(_is_of_tries(source, loop, call) for loop in loops)


def _is_of_tries(source: Source, loop: ast.For | ast.While, call: ast.AST) -> bool:
    """Whether a loop has a try whose handler keeps what failed for the loop's next turn, or goes on to the next try."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.Try) or not node.handlers:
            continue
        if any(is_remote(each) for handler in node.handlers for each in ast.walk(handler)):
            return True
        if _kept(node) & _needed(loop, call):
            return True
        leaves = any(
            isinstance(each, ast.Return | ast.Break) for part in node.body for each in ast.walk(part)
        )
        leaves |= any(isinstance(each, ast.Return | ast.Break) for each in node.orelse)
        own = names_in(loop.target) if isinstance(loop, ast.For) else set()
        inner = next((each for each in source.above(node) if isinstance(each, ast.For | ast.While)), None)
        if leaves and inner is loop and not names_in(call) & own:
            return True  # `for attempt in range(3): try: return get(f.remote(x))`
    return False


def _kept(node: ast.Try) -> set[str]:
    """The variables that a handler changes: `failed.append(item)`, `again = True`."""
    found: set[str] = set()
    for handler in node.handlers:
        for part in handler.body:
            found |= targets_of(part)
            for each in ast.walk(part):
                if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.args:
                    found |= names_in(each.func.value)
    return found


def _needed(loop: ast.For | ast.While, call: ast.AST) -> set[str]:
    """The variables that decide of a next turn, or of what it submits; with those that they are made of in the loop."""
    found = names_in(loop.test) if isinstance(loop, ast.While) else set()
    found |= names_in(call)
    for node in ast.walk(loop):
        if isinstance(node, ast.For | ast.comprehension) and names_in(node.target) & found:
            found |= names_in(node.iter)
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and targets_of(node) & found:
            found |= names_in(node.value)
    return found
