"""The loop that a get is made in, and whether its turns need each other's results.

Owns the way from the line of a get to the loop that repeats it, through the functions and methods in between, also
over several files; and the question whether what one turn got is used to submit in a later one. Only the text of the
program is read. Pure but for the source files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from sundog.advice.source import COMPREHENSIONS, Loop, Source, Sources, is_remote
from sundog.plain import field, plain

_DEPTH = 4  # the most functions between a loop and its get
_ROUNDS = 3  # passes of the analysis, enough for a loop of usual size
_HARMLESS = frozenset(
    {"print", "len", "sum", "min", "max", "sorted", "range", "zip", "enumerate", "isinstance"}
)


@plain()
class Turns:
    """A get, and the loop that makes it again and again."""

    source: Source  # of the loop, or of the get if there is none
    loop: Loop | None
    waits: list[ast.AST]  # in the loop: the get or await itself, or the call that leads to it
    inner: list[ast.AST] = field(default_factory=list)  # functions between the loop and the get
    gets: list[ast.AST] = field(default_factory=list)  # the gets and awaits at the line itself


def loop_at(sources: Sources, site: str) -> Turns | None:
    """The loop in which a get or await at a site is made, there or by a caller; None without a source."""
    found = sources.at(site)
    if found is None:
        return None
    source, place = found
    gets = waits_at(source, place.line)
    if not gets:
        return Turns(source, None, [])
    loop = source.loop_of(gets[0])
    if loop is not None:
        return Turns(source, loop, list(gets), [], list(gets))
    function = source.function_of(gets[0])
    return _callers(sources, source, function, gets) or Turns(source, None, list(gets), [], list(gets))


def waits_at(source: Source, line: int) -> list[ast.expr]:
    """Gets, and awaits of refs, that a line has a part of; the smallest ones first."""
    gets: list[ast.expr] = list(source.calls(line, "get"))
    awaits = [node for node in source.on(line) if isinstance(node, ast.Await)]
    return gets or sorted(awaits, key=lambda node: (node.end_lineno or 0) - node.lineno)


def name_of(function: ast.AST) -> str:
    """The last name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _callers(
    sources: Sources, source: Source, function: ast.AST | None, gets: Iterable[ast.AST]
) -> Turns | None:
    """The loop that calls a function, at most some functions away: the nearest one."""
    level = [(source, function, [function])]
    seen: set[ast.AST] = set()
    for _ in range(_DEPTH):
        above = []
        for file, callee, chain in level:
            if not isinstance(callee, ast.FunctionDef | ast.AsyncFunctionDef) or callee in seen:
                continue
            seen.add(callee)
            for where, call in _calls_of(sources, file, callee.name):
                loop = where.loop_of(call)
                inner = [each for each in chain if each is not None]
                if loop is not None:
                    return Turns(where, loop, [call], inner, list(gets))
                outer = where.function_of(call)
                above.append((where, outer, [*chain, outer]))
        level = above
    return None


def _calls_of(sources: Sources, first: Source, name: str) -> Iterator[tuple[Source, ast.Call]]:
    """Calls of a function, in its own file first. A call of `name.remote` is another process: not one of them."""
    for source in (first, *(each for each in sources.read() if each is not first)):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and name_of(node.func) == name:
                yield source, node


# ---------------------------------------------------------------------- do the turns of a loop need each other?
def names_in(node: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The variables that some code reads, attributes of self as `self.x`."""
    parts = [node] if isinstance(node, ast.AST) else list(node)
    found = set()
    for part in parts:
        for each in ast.walk(part):
            if isinstance(each, ast.Name):
                found.add(each.id)
            elif isinstance(each, ast.Attribute) and _is_self(each.value):
                found.add(f"self.{each.attr}")
    found.discard("self")
    return found


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _bases(target: ast.AST) -> set[str]:
    """The variables that an assignment to a target changes: of `a[i].b` that is `a`, of `self.x[i]` it is `self.x`."""
    if isinstance(target, ast.Tuple | ast.List):
        return {name for each in target.elts for name in _bases(each)}
    if isinstance(target, ast.Attribute) and _is_self(target.value):
        return {f"self.{target.attr}"}
    if isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        return _bases(target.value)
    return {target.id} if isinstance(target, ast.Name) else set()


class _Flow:
    """What follows from what was got, in the turns of one loop."""

    def __init__(self, turns: Turns) -> None:
        self.source, self.loop = turns.source, turns.loop
        self.gets = {*turns.waits, *turns.gets, *_gets_in(turns)}
        self.calls = set(turns.waits) - set(turns.gets)  # that lead to a submission and its get
        self.tainted: set[str] = set()
        bodies = [*getattr(turns.loop, "body", ())]
        for function in reversed(turns.inner):
            bodies += getattr(function, "body", ())
        self.statements = list(_flat(bodies))
        self.modules = {
            (each.asname or each.name).partition(".")[0]
            for node in ast.walk(turns.source.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for each in node.names
        }
        for _ in range(_ROUNDS):
            for statement in self.statements:
                self._spread(statement)

    def is_tainted(self, node: ast.AST) -> bool:
        """Whether some code uses what was got, in this turn or before."""
        return any(each in self.gets for each in ast.walk(node)) or bool(names_in(node) & self.tainted)

    def _spread(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.For | ast.AsyncFor):
            if self.is_tainted(statement.iter):
                self.tainted |= _bases(statement.target)
            return
        if isinstance(statement, ast.With | ast.AsyncWith | ast.Try | ast.FunctionDef | ast.ClassDef):
            return
        for head in _head(statement):
            if self.is_tainted(head):
                self.tainted |= targets_of(head)
            for node in ast.walk(head):
                if isinstance(node, ast.Call) and not is_remote(node):
                    self._called(node, isinstance(statement, ast.Expr))

    def _called(self, call: ast.Call, for_its_effect: bool) -> None:
        """A call that is given what was got may change the object whose method it is, and what else it is given."""
        given = [*call.args, *(each.value for each in call.keywords)]
        if call in self.gets or not any(self.is_tainted(each) for each in given):
            return
        if isinstance(call.func, ast.Attribute):
            if _is_self(call.func.value):
                self.tainted |= self._changed_by(call.func.attr)
            else:
                self.tainted |= _bases(call.func.value) - self.modules
        if (
            for_its_effect
            and name_of(call.func) not in _HARMLESS
            and not isinstance(call.func, ast.Attribute)
        ):
            self.tainted |= {name for each in given for name in _bases(each)} - self.modules

    def _changed_by(self, method: str) -> set[str]:
        """The attributes of self that a method of this file assigns."""
        definition = self.source.definition(method)
        if definition is None:
            return set()
        return {name for name in targets_of(definition) if name.startswith("self.")}

    def _drawn_from(self, names: set[str], head: ast.AST) -> set[str]:
        """Names with what they stand for: the variable of a comprehension is an item of what it goes over."""
        found = set(names)
        for node in ast.walk(head):
            for each in getattr(node, "generators", ()) if isinstance(node, COMPREHENSIONS) else ():
                if _bases(each.target) & found:
                    found |= names_in(each.iter)
        return found

    def _actors_told(self) -> set[str]:
        """Actors that were given what was got and keep some of it: what they do next depends on it."""
        found: set[str] = set()
        for statement in self.statements:
            for head in _head(statement):
                for call in ast.walk(head):
                    if isinstance(call, ast.Call) and is_remote(call):
                        handle = call.func.value  # type: ignore[attr-defined]
                        given = [*call.args, *(each.value for each in call.keywords)]
                        if isinstance(handle, ast.Attribute) and self._changed_by(handle.attr):
                            names = self._drawn_from(names_in(given), head)
                            if names & self.tainted or any(self.is_tainted(each) for each in given):
                                found |= self._drawn_from(_bases(handle.value), head) - self.modules
        return found

    def need_each_other(self) -> bool:
        """Whether a turn submits by what one before it got, or what was got decides whether there is another."""
        old = self.tainted | self._actors_told()
        known: set[str] = set()  # made in this turn, from nothing that was got in an earlier turn
        if isinstance(self.loop, ast.For | ast.AsyncFor):
            known |= _bases(self.loop.target)
        for statement in self.statements:
            for head in _head(statement):
                for call in ast.walk(head):
                    if isinstance(call, ast.Call) and (is_remote(call) or call in self.calls):
                        used = names_in([*call.args, *(each.value for each in call.keywords), call.func])
                        if self._drawn_from(used, head) & old - known:
                            return True
            if (
                isinstance(statement, ast.If | ast.While)
                and self.is_tainted(statement.test)
                and _leaves(statement)
            ):
                return True
            if isinstance(statement, ast.For | ast.AsyncFor):
                if not names_in(statement.iter) & old - known:
                    known |= _bases(statement.target)
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                if not names_in(statement.value) & old - known:
                    known |= targets_of(statement)
        return (
            isinstance(self.loop, ast.While)
            and self.is_tainted(self.loop.test)
            and not self._only_counts(self.loop)
        )

    def _only_counts(self, loop: ast.While) -> bool:
        """Whether a loop asks only how many results it has, in lists that grow by one in each turn."""
        lengths = [
            node.args[0].id
            for node in ast.walk(loop.test)
            if isinstance(node, ast.Call)
            and name_of(node.func) == "len"
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Name)
        ]
        if set(lengths) < names_in(loop.test) & self.tainted or any(
            node in self.gets for node in ast.walk(loop.test)
        ):
            return False
        always = [each for each in loop.body if isinstance(each, ast.Expr)]
        for name in lengths:
            told = [node for each in loop.body for node in ast.walk(each) if _is_name(node, name)]
            grown = [
                each.value.func.value
                for each in always
                if isinstance(each.value, ast.Call)
                and isinstance(each.value.func, ast.Attribute)
                and each.value.func.attr == "append"
                and _is_name(each.value.func.value, name)
            ]
            if not grown or told != grown:
                return False
        return not any(isinstance(node, ast.Continue) for each in loop.body for node in ast.walk(each))


def turns_need_each_other(turns: Turns) -> bool:
    """Whether what a turn of a loop got is used to submit in a later turn, or to decide if there is one."""
    if isinstance(turns.loop, COMPREHENSIONS) and not turns.inner:
        return False  # a turn of a comprehension cannot see the turn before it (except by :=)
    return _Flow(turns).need_each_other()


def _gets_in(turns: Turns) -> Iterator[ast.AST]:
    """All gets of a loop: a turn may need what another get of the turn before it got."""
    for node in ast.walk(turns.loop) if turns.loop is not None else ():
        if isinstance(node, ast.Call) and turns.source.is_verb(node, "get"):
            yield node


def targets_of(statement: ast.AST) -> set[str]:
    """The variables that some code changes."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found |= _bases(target)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.AsyncFor):
            found |= _bases(node.target)
    return found


def _head(statement: ast.stmt) -> list[ast.AST]:
    """What a statement evaluates itself, without the statements in it."""
    if isinstance(statement, ast.If | ast.While):
        return [statement.test]
    if isinstance(statement, ast.For | ast.AsyncFor):
        return [statement.iter]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [each.context_expr for each in statement.items]
    if isinstance(statement, ast.Try | ast.FunctionDef | ast.ClassDef):
        return []
    return [statement]


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                yield from _flat(inner)
        for handler in getattr(statement, "handlers", ()):
            yield from _flat(handler.body)


def _leaves(statement: ast.AST) -> bool:
    return any(isinstance(each, ast.Break | ast.Return) for each in ast.walk(statement))
