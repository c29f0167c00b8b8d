"""Running a capsule again, in this process.

Owns how the surroundings of the first run are made again (folder, import path, environment, random states), and the
comparison of the two outcomes. Opening a capsule runs code: the caller has asked the user. Of a call the state of the
actor before it is gone, unless the capsule holds it: then the actor is constructed anew, and the outcome says so.
Runs in the terminal's process, main thread.
"""

from __future__ import annotations

import ast
import contextlib
import mmap
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from sundog.capsules import capture
from sundog.capsules.answers import ItemTally, outcome_of
from sundog.capsules.rows import Contents, Header, Lent, Outcome, Packed
from sundog.config import set_child_environ, user_environ
from sundog.plain import NamedTuple
from sundog.serialize.pack import Slot, unpack_with

if TYPE_CHECKING:
    from collections.abc import Awaitable

# Variables of the terminal, not of the task.
_KEPT = frozenset(
    {"TERM", "COLUMNS", "LINES", "DISPLAY", "PWD", "OLDPWD", "SHLVL", "_", "PATH", "VIRTUAL_ENV"}
)

_CONSTRUCTED = (
    "The actor is constructed anew: changes by its earlier calls are not in the capsule. "
    "@remote(capsule=True) on the class keeps its state before each call."
)
# Modules that a pickle names if code is in it, instead of the name of a function or class.
_BY_VALUE = (b"cloudpickle", b"sundog.serialize.by_code")


class CannotReplay(Exception):
    """The task cannot be run again; the text says why, in one sentence."""


class LostRef:
    """Stands where a ref was whose value is not in the capsule."""

    def __init__(self, oid: bytes) -> None:
        self.oid = oid

    def __repr__(self) -> str:
        return f"LostRef({self.oid.hex()}: a ref inside an argument, whose value the task had not read)"


class Bound(NamedTuple):
    """A function with what it is called with."""

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]


class Prepared(NamedTuple):
    """A run that is ready to begin."""

    function: Callable[..., object]  # the function as the user wrote it; of a call, the actor's class
    bind: Callable[[], Bound]  # runs code of the user's: loads the arguments, constructs the actor
    remark: str = ""  # what differs from the recorded run; "" if nothing does
    name: str = ""
    returns: str = "1"  # num_returns

    def call(self) -> Outcome:
        """Run it; a coroutine to its end, a generator to the last of its items that are results.

        Raises:
            CannotReplay: something that is needed is gone.
            BaseException: what the task raises.
        """
        function, args, kwargs = self.bind()
        result = function(*args, **kwargs)
        if hasattr(result, "__await__") and hasattr(result, "send"):
            import asyncio

            result = asyncio.run(_to_end(result))
        elif isinstance(result, AsyncIterator):
            import asyncio

            return asyncio.run(_items(result))
        return outcome_of(result, self.name, self.returns)


async def _to_end(coroutine: Awaitable[object]) -> object:
    return await coroutine


async def _items(results: AsyncIterator[object]) -> Outcome:
    items = ItemTally()
    async for each in results:
        items.add(each)
    return items.outcome()


def make_surroundings(contents: Contents) -> None:
    """Have this process look like the worker: folder, import path, environment."""
    if contents.folder:
        with contextlib.suppress(OSError):
            os.chdir(contents.folder)
    sys.path[:0] = [each for each in contents.import_paths if each not in sys.path]
    here = user_environ()
    set_child_environ(
        {
            name: value
            for name, value in contents.environ.items()
            if name not in _KEPT and here.get(name) != value
        }
    )


def prepare(header: Header, contents: Contents, *, from_source: bool = False) -> Prepared:
    """Load function and arguments; after `make_surroundings`.

    Args:
        from_source: Take the function from its file as it is now, not from the capsule.

    Raises:
        CannotReplay: something that is needed is gone.
    """
    _check_python(header, contents)
    target = _load(contents.function, header)
    if from_source:
        target = _from_file(header, target)

    def bind() -> Bound:
        args, kwargs = _loaded_arguments(header, contents)
        function = target
        if contents.method and header.kind != "constructor":
            function = getattr(_actor(header, contents, target, from_source), contents.method)
        _seed(contents)
        return Bound(function, args, kwargs)

    is_made_anew = contents.method and header.kind != "constructor" and not contents.actor_state
    return Prepared(
        target,
        bind,
        _CONSTRUCTED if is_made_anew else "",
        header.name,
        header.options.get("num_returns", "1"),
    )


def _check_python(header: Header, contents: Contents) -> None:
    """Refuse bytecode of another Python: it cannot be loaded, or crashes the process that runs it."""
    made_by = header.versions.get("python", "")
    if not made_by or made_by.split(".")[:2] == [str(each) for each in sys.version_info[:2]]:
        return
    packed = [each for each in (contents.args, contents.constructor_args) if each is not None]
    pickles = [contents.function, contents.actor_state, *(Packed(*each).meta for each in packed)]
    if any(mark in each for mark in _BY_VALUE for each in pickles):
        raise CannotReplay(
            f"{header.function} was recorded by Python {made_by} with its code, and this is Python "
            f"{sys.version.split()[0]}, which cannot run that code. Run this command with Python "
            f"{'.'.join(made_by.split('.')[:2])}."
        )


def _load(blob: bytes, header: Header) -> Callable[..., object]:
    import pickle

    try:
        found: Callable[..., object] = pickle.loads(blob)
        return found
    except Exception as error:
        raise CannotReplay(
            f"{header.function} cannot be loaded here: {type(error).__name__}: {error}. Run this where its modules are "
            f"installed (it was defined in {header.source or 'an unknown file'})."
        ) from error


def _loaded_arguments(header: Header, contents: Contents) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments. What is raised while they are loaded is an outcome of the task, unless a module is not here."""
    try:
        return _arguments(contents.args, contents.values, contents.nested)
    except (ImportError, AttributeError) as error:
        outcome = capture.outcome_of_error(error)
        if outcome.is_same(header.outcome) or (outcome.place and not isinstance(error, ImportError)):
            raise
        raise CannotReplay(
            f"The arguments of {header.function} cannot be loaded here: {type(error).__name__}: {error}. Run "
            "this where its modules are installed."
        ) from error


def _actor(header: Header, contents: Contents, cls: Callable[..., object], from_source: bool) -> object:
    import pickle

    if contents.actor_state:
        try:
            actor = pickle.loads(contents.actor_state)
        except Exception as error:
            raise CannotReplay(f"The state of {header.function}'s actor cannot be loaded: {error}") from error
        if from_source:
            actor.__class__ = cls
        return actor
    args, kwargs = _arguments(contents.constructor_args, contents.constructor_values, {})
    return cls(*args, **kwargs)


def _seed(contents: Contents) -> None:
    if contents.random_state is not None:
        random.setstate(contents.random_state)
    if contents.numpy_state is not None:
        import numpy

        numpy.random.set_state(contents.numpy_state)


# ---------------------------------------------------------------------- arguments
def _arguments(
    packed: Packed | None, values: tuple[Packed, ...], nested: dict[bytes, Packed]
) -> tuple[tuple[object, ...], dict[str, object]]:
    if packed is None:
        return (), {}

    def rebuild(oid: bytes, _site: object = None) -> object:
        if oid not in nested:
            return LostRef(oid)
        import sundog

        return sundog.put(_unpack(nested[oid], rebuild))

    payload = _unpack(packed, rebuild)
    positional, named = payload if type(payload) is list else (payload, {})
    slots = [_unpack(each, rebuild) for each in values]
    return (
        tuple(slots[each.index] if type(each) is Slot else each for each in positional),
        {
            key: slots[each.index] if type(each) is Slot else each
            for key, each in named.items()
            if key != "_ray_trace_ctx"  # the context of a span, which is over (`observe/spans.py`)
        },
    )


def _unpack(packed: Packed, rebuild: Callable[..., object]) -> object:
    packed = Packed(*packed)
    buffers = packed.buffers
    if buffers is None:
        return unpack_with(packed.meta, None, rebuild)
    views = _borrow(buffers) if isinstance(buffers, Lent) else [memoryview(each) for each in buffers]
    return unpack_with(packed.meta, views, rebuild)


def _borrow(lent: Lent) -> list[memoryview]:
    """Buffers that were too large for the capsule, if their segments still exist."""
    try:
        with open(lent.path, "rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        whole = memoryview(b"")
    views = [whole[start : start + length] for start, length in lent.offsets]
    lengths = [length for _, length in lent.offsets]
    if [each.nbytes for each in views] != lengths or capture.digest_of(views) != lent.digest:
        size = sum(lengths)
        del views, whole  # the error's traceback leads here
        raise CannotReplay(
            f"An argument of {size / (1 << 20):.0f} MiB was too large for the capsule, and its object is gone. "
            "Raise capsule_max_bytes (SUNDOG_capsule_max_bytes) for the next run."
        )
    return views


# ---------------------------------------------------------------------- the code as it is now
def _from_file(header: Header, before: Callable[..., object]) -> Callable[..., object]:
    """The function or class as its file defines it now.

    The file's imports, definitions and constants are run, in the names that the function had; its other statements are
    not: the program would begin anew.
    """
    path, _, _ = header.source.rpartition(":")
    if not os.path.isfile(path):
        raise CannotReplay(
            f"The source file of {header.function} is not on this machine: {path or 'unknown'}."
        )
    parts = header.function.split(".")
    wanted = parts[:-1] if header.kind in ("call", "constructor") else parts
    names = {**_globals_of(before), "__name__": "__sundog_replay__", "__file__": path}
    names.pop(wanted[0], None)
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read(), path)
        tree.body = [node for node in tree.body if _is_definition(node)]
        exec(compile(tree, path, "exec"), names)
    except Exception as error:
        raise CannotReplay(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    found: object = names.get(wanted[0])
    for part in wanted[1:]:
        found = getattr(_own(found), part, None)
    own = _own(found)
    if not callable(own):
        raise CannotReplay(f"{path} defines no {'.'.join(wanted)} at its top level any more.")
    return own


def _globals_of(target: object) -> dict[str, object]:
    """The names around a function, or around the methods of a class."""
    inner = [target] if not isinstance(target, type) else list(vars(target).values())
    found = (getattr(getattr(each, "__func__", each), "__globals__", None) for each in inner)
    return next((names for names in found if names is not None), {})


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return node.value is not None and not any(isinstance(each, ast.Call) for each in ast.walk(node.value))
    if isinstance(node, ast.If | ast.Try):  # imports that depend on the version or on installed packages
        inner = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
        return all(isinstance(each, ast.Import | ast.ImportFrom | ast.Pass) for each in inner)
    return isinstance(
        node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    )


def _own(found: object) -> object:
    """The function of a remote function, the class of an actor class."""
    for name in ("_function", "_cls"):
        inner = getattr(found, name, None)
        if inner is not None:
            return inner
    return found


def compare(first: Outcome, second: Outcome) -> str:
    """The two outcomes in words."""
    if first.is_same(second):
        return f"The same outcome: it {second.words()}"
    if first.is_alike(second):
        return (
            f"The same class of exception at the same place ({second.place}), with another text. "
            f"Then: {first.text.rstrip('.')}. Now: {second.text}"
        )
    return f"Another outcome. Then it {first.words().rstrip('.')}. Now it {second.words()}"
