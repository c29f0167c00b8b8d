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
_STORES = frozenset({"append", "extend", "add", "update", "list", "tuple", "set", "dict", "setdefault"})
# Calls of libraries that wait, by their usual names: a line may have others too.
_WAITING = frozenset(
    {"get", "get_next", "get_next_unordered", "apply", "map", "starmap", "result", "results"}
)
_MAPPING = frozenset({"map", "filter", "starmap", "apply"})
_WITH_KEY = frozenset({"sorted", "min", "max", "sort"})


# A function, its file, the functions from the get up to it, and the calls between them.
_Way = tuple[Source, ast.AST | None, list[ast.AST | None], list[ast.AST]]


@plain()
class Turns:
    """A get, and the loop that makes it again and again."""

    source: Source  # of the loop, or of the get if there is none
    loop: Loop | ast.Call | None  # a call, of `map(function, items)`
    waits: list[ast.AST]  # in the loop: the get or await itself, or the call that leads to it
    inner: list[ast.AST] = field(default_factory=list)  # functions between the loop and the get
    gets: list[ast.AST] = field(default_factory=list)  # the gets and awaits at the line itself
    between: list[ast.AST] = field(default_factory=list)  # calls in these functions that lead to the get


def loop_at(sources: Sources, site: str) -> Turns | None:
    """The loop in which a get or await at a site is made, there or by a caller; None without a source."""
    found = sources.at(site)
    if found is None:
        return None
    source, place = found
    gets = waits_at(source, place.line)
    if not gets:
        return Turns(source, None, [])
    own: list[ast.AST] = list(gets)
    if is_of_library(source, gets[0]):
        own = []  # it submits too, and then waits
    loop = _repeating(source, gets[0])
    if loop is not None:
        return Turns(source, loop, list(gets), [], own)
    function = source.function_of(gets[0])
    return _callers(sources, source, function, own or gets) or Turns(source, None, list(gets), [], own)


def waits_at(source: Source, line: int) -> list[ast.expr]:
    """Gets, and awaits of refs, that stand on this line in whole or in part, the smallest first; else a `wait`, or
    a call of a library that waits in it: a pool's `apply` or `get_next`.
    """
    gets: list[ast.expr] = list(source.calls(line, "get"))
    awaits = [node for node in source.on(line) if isinstance(node, ast.Await)]
    return (
        gets
        or sorted(awaits, key=lambda node: (node.end_lineno or 0) - node.lineno)
        or list(source.calls(line, "wait"))
        or _library_calls(source, line)
    )


def _library_calls(source: Source, line: int) -> list[ast.expr]:
    """The outermost calls that begin on a line and are of a library, as far as their names tell."""
    found: list[ast.expr] = [
        node
        for node in source.on(line)
        if isinstance(node, ast.Call)
        and node.lineno == line
        and not is_remote(node)
        and name_of(node.func) not in _HARMLESS | _STORES
        and source.definition(name_of(node.func) or "?") is None
    ]
    return sorted(found, key=lambda node: (name_of(node.func) not in _WAITING, node.col_offset))[:1]  # type: ignore[attr-defined]


def is_of_library(source: Source, wait: ast.AST) -> bool:
    """Whether what waits is a call of a library, in which the get is."""
    return isinstance(wait, ast.Call) and not source.is_verb(wait, "get", "wait")


def _repeating(source: Source, node: ast.AST) -> Loop | None:
    """The innermost loop that goes on when a get has its result. A loop that tries until there is one does not."""
    loop = source.loop_of(node)
    while loop is not None and _is_left_behind(source, loop, node):
        node, loop = loop, source.loop_of(loop)
    return loop


def _is_left_behind(source: Source, loop: Loop, node: ast.AST) -> bool:
    """Whether the turn of a loop in which a node gives something is its last: a return or break follows in any case."""
    if isinstance(loop, COMPREHENSIONS):
        return False
    child = source.statement_of(node)
    while child is not loop:
        if isinstance(child, ast.Return | ast.Break):
            return True
        parent = source.parents[child]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and child in block:
                after = block[block.index(child) + 1 :]
                after += parent.orelse if isinstance(parent, ast.Try) and name == "body" else []
                if any(isinstance(each, ast.Return | ast.Break) for each in after):
                    return True
        if not isinstance(parent, ast.stmt):  # a handler: the get of the second try
            parent = source.statement_of(parent)
        child = parent
    return False


def name_of(function: ast.AST) -> str:
    """The last name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _callers(
    sources: Sources, source: Source, function: ast.AST | None, gets: Iterable[ast.AST]
) -> Turns | None:
    """The loop that calls a function, at most some functions away: the nearest one."""
    level: list[_Way] = [(source, function, [function], [])]
    seen: set[ast.AST] = set()
    for _ in range(_DEPTH):
        above: list[_Way] = []
        for file, callee, chain, calls in level:
            inner = [each for each in chain if each is not None and not isinstance(each, ast.Lambda)]
            given = _given_to(file, callee)
            if given is not None:
                return Turns(file, given, [], inner, list(gets), calls)
            if not isinstance(callee, ast.FunctionDef | ast.AsyncFunctionDef) or callee in seen:
                continue
            seen.add(callee)
            names = {callee.name} | _names_given(sources, file, callee)
            for where, call in (found for name in names for found in calls_of(sources, file, name)):
                loop = _repeating(where, call)
                if loop is not None:
                    return Turns(where, loop, [call], inner, list(gets), calls)
                outer = where.function_of(call)
                above.append((where, outer, [*chain, outer], [*calls, call]))
        level = above
    return None


def _names_given(
    sources: Sources, source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> set[str]:
    """The names under which a function is called that another one makes and returns: what that one decorates, and the
    variables that it is assigned to.
    """
    makers: set[str] = set()
    made: ast.AST = function
    while isinstance(maker := source.function_of(made), ast.FunctionDef) and _returns(maker, made):
        makers.add(maker.name)
        made = maker
    if not makers:
        return set()
    found: set[str] = set()
    for file in (source, *(each for each in sources.read() if each is not source)):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                by = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
                found |= {node.name} if any(name_of(each) in makers for each in by) else set()
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                found |= targets_of(node) if name_of(node.value.func) in makers else set()
    return found


def _returns(function: ast.FunctionDef, made: ast.AST) -> bool:
    """Whether a function returns another one, which it has made, by its name."""
    return any(
        isinstance(node, ast.Return)
        and node.value is not None
        and _is_name(node.value, getattr(made, "name", ""))
        for node in ast.walk(function)
    )


def outer_of(sources: Sources, turns: Turns) -> Turns | None:
    """The loop around a loop, there or around a call of its function; None if there is none."""
    if turns.loop is None:
        return None
    loop = turns.source.loop_of(turns.loop)
    if loop is not None:
        return Turns(turns.source, loop, turns.waits, turns.inner, turns.gets, turns.between)
    function = turns.source.function_of(turns.loop)
    found = _callers(sources, turns.source, function, turns.gets or turns.waits)
    if found is None:
        return None
    inner, between = [*turns.inner, *found.inner], [*turns.between, *found.between]
    return Turns(found.source, found.loop, found.waits, inner, list(turns.gets), [*between, *turns.waits])


def _given_to(source: Source, function: ast.AST | None) -> ast.Call | None:
    """The call that calls a function for each of its items: `map(function, items)`, `sorted(items, key=function)`."""
    if isinstance(function, ast.Lambda):
        named: list[ast.AST] = [function]
    elif isinstance(function, ast.FunctionDef):
        named = [node for node in ast.walk(source.tree) if _is_name(node, function.name)]
    else:
        return None
    for each in named:
        parent = source.parents.get(each)
        if isinstance(parent, ast.keyword) and parent.arg == "key":
            parent, names = source.parents[parent], _WITH_KEY
        else:
            names = _MAPPING
        if isinstance(parent, ast.Call) and name_of(parent.func) in names and parent.func is not each:
            return parent
    return None


def loop_around(sources: Sources, site: str) -> Turns | None:
    """The loop around a line, there or around a call of its function; None if there is none."""
    found = sources.at(site)
    if found is None:
        return None
    source, place = found
    own = next((node for node in source.on(place.line) if isinstance(node, ast.stmt | ast.Call)), None)
    calls = [node for node in source.on(place.line) if isinstance(node, ast.Call)]
    inner = max(calls, key=lambda node: node.col_offset, default=own)
    if inner is None:
        return None
    loop = source.loop_of(inner)
    if loop is not None:
        return Turns(source, loop, [])
    return _callers(sources, source, source.function_of(inner), [])


def calls_of(sources: Sources, first: Source, name: str) -> Iterator[tuple[Source, ast.Call]]:
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
        self.source, self.loop, self.inner = turns.source, turns.loop, turns.inner
        self.gets = {*turns.waits, *turns.gets, *turns.between, *_gets_in(turns)}
        self.calls = set(turns.waits) - set(turns.gets)  # that lead to a submission and its get
        self.leading = {*self.calls, *turns.between} if turns.inner else set()
        self.tainted: set[str] = set()
        self.reads: dict[str, set[str]] = {}
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
        return any(each in self.gets for each in ast.walk(node)) or bool(self._names(node) & self.tainted)

    def _names(self, node: ast.AST | Iterable[ast.AST]) -> set[str]:
        """The variables that code reads, also in the methods of self that it calls; not in those that lead to the get:
        their own statements are looked at.
        """
        leading = {f"self.{getattr(function, 'name', '')}" for function in self.inner}
        found = names_in(node)
        return found.union(*(self._read_by(name) for name in found - leading))

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
        """A call whose arguments come from a get may change its object and its other arguments."""
        given = [*call.args, *(each.value for each in call.keywords)]
        if call in self.gets or not any(self.is_tainted(each) for each in given):
            return
        if isinstance(call.func, ast.Attribute):
            if _is_self(call.func.value):
                self.tainted |= self._changed_by(call.func.attr) | self._grown_by(call.func.attr)
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

    def _grown_by(self, method: str) -> set[str]:
        """The attributes of self that a method of this file gives something to: `self.history.append(pair)`."""
        definition = self.source.definition(method)
        return {
            name
            for node in (ast.walk(definition) if definition is not None else ())
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.args
            for name in _bases(node.value.func.value)
            if name.startswith("self.")
        }

    def _drawn_from(self, names: set[str], head: ast.AST) -> set[str]:
        """Names with what they stand for: the variable of a comprehension is an item of what it goes over."""
        found = set(names)
        for node in ast.walk(head):
            for each in getattr(node, "generators", ()) if isinstance(node, COMPREHENSIONS) else ():
                if _bases(each.target) & found:
                    found |= names_in(each.iter)
        return found

    def _actors_told(self) -> set[str]:
        """Actors that were given values from a get and keep some of them: their later calls depend on these values."""
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
        """Whether a turn of the loop needs what an earlier turn got, for its submissions or to go on at all."""
        old = self.tainted | self._actors_told()
        known: set[str] = set()  # made in this turn, from nothing that was got in an earlier turn
        if isinstance(self.loop, ast.For | ast.AsyncFor):
            known |= _bases(self.loop.target)
        for statement in self.statements:
            for head in _head(statement):
                for call in ast.walk(head):
                    if isinstance(call, ast.Call) and (_submits(call) or call in self.calls):
                        used = self._names([*call.args, *(each.value for each in call.keywords), call.func])
                        if self._drawn_from(used, head) & old - known:
                            return True
            if (
                isinstance(statement, ast.If | ast.While)
                and self._asks(statement.test)
                and self._leaves(statement)
            ):
                return True
            if isinstance(statement, ast.For | ast.AsyncFor):
                if not self._names(statement.iter) & old - known:
                    known |= _bases(statement.target)
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                if not self._names(statement.value) & old - known:
                    known |= self._made_before(statement)
        return (
            isinstance(self.loop, ast.While)
            and self._asks(self.loop.test)
            and not self._only_counts(self.loop)
        )

    def _made_before(self, statement: ast.Assign | ast.AnnAssign) -> set[str]:
        """What an assignment makes for the submissions behind it. Those in a method that it calls were before it."""
        found = targets_of(statement)
        if any(each in self.leading for each in ast.walk(statement)):
            found = {name for name in found if not name.startswith("self.")}
        return found

    def _asks(self, test: ast.AST) -> bool:
        """Whether a test asks for what was got, also of an object whose method got it: `while client.cursor:`."""
        if self.is_tainted(test):
            return True
        told = {
            base
            for call in self.calls
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            for base in _bases(call.func.value)
        }
        return any(
            isinstance(node, ast.Attribute)
            and _bases(node.value) & told
            and self._read_by(f"self.{node.attr}") & self.tainted
            for node in ast.walk(test)
        )

    def _read_by(self, name: str) -> set[str]:
        """An attribute of self; if it is a method of this file, the attributes that it reads too."""
        if name not in self.reads:
            own = self.source.definition(name.removeprefix("self.")) if name.startswith("self.") else None
            is_method = isinstance(own, ast.FunctionDef | ast.AsyncFunctionDef)
            more = names_in(own) if is_method and own is not None else set()
            self.reads[name] = {name, *(each for each in more if each.startswith("self."))}
        return self.reads[name]

    def _leaves(self, statement: ast.AST) -> bool:
        """Whether a statement may end the loop. A return from a function that the loop calls does not."""
        if self.loop is None:
            return False
        function = self.source.function_of(self.loop)
        own = {node for node in ast.walk(self.loop) if isinstance(node, ast.Return | ast.Break)}
        for node in ast.walk(statement):
            if node not in own:
                continue
            if isinstance(node, ast.Return) and self.source.function_of(node) is function:
                return True
            around = (
                each
                for each in self.source.above(node)
                if isinstance(each, ast.For | ast.AsyncFor | ast.While)
            )
            if isinstance(node, ast.Break) and next(around, None) is self.loop:
                return True
        return False

    def is_alike_in_each_turn(self) -> bool:
        """Whether every turn submits the same: nothing that is submitted, or given to it, changes in the loop."""
        changing: set[str] = set()
        for part in (self.loop, *self.statements):
            changing |= targets_of(part) if part is not None else set()
        inner = {
            each.arg for function in self.inner for each in ast.walk(function) if isinstance(each, ast.arg)
        }
        own = set(ast.walk(self.loop)) if self.loop is not None else set()
        submitted = False
        for statement in self.statements:
            # What a function is given changes with its call, which is looked at itself.
            new = changing if statement in own else changing - inner
            for head in _head(statement):
                for call in ast.walk(head):
                    if isinstance(call, ast.Call) and (_submits(call) or call in self.calls):
                        submitted = submitted or _submits(call)
                        used = names_in([*call.args, *(each.value for each in call.keywords), call.func])
                        if self._drawn_from(used, head) & new:
                            return False
        return submitted

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
        if (
            not lengths
            or set(lengths) < names_in(loop.test) & self.tainted
            or any(node in self.gets for node in ast.walk(loop.test))
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


def turns_are_alike(turns: Turns) -> bool:
    """Whether each turn of a loop submits the same as the one before: calls of an actor then are steps in time."""
    return isinstance(turns.loop, ast.For | ast.AsyncFor | ast.While) and _Flow(turns).is_alike_in_each_turn()


def _gets_in(turns: Turns) -> Iterator[ast.AST]:
    """All gets of a loop: a turn may need what another get of the turn before it got."""
    for part in (turns.loop, *turns.inner) if turns.loop is not None else ():
        for node in ast.walk(part):
            if isinstance(node, ast.Call) and turns.source.is_verb(node, "get"):
                yield node


def _submits(call: ast.Call) -> bool:
    """Whether a call is `x.remote(…)`, or given a function with one: `pool.submit(lambda a, v: a.f.remote(v), …)`."""
    return is_remote(call) or any(
        isinstance(each, ast.Lambda) and any(is_remote(node) for node in ast.walk(each)) for each in call.args
    )


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
