"""The user's own exceptions on their way between processes: as text, as bytes, and as stand-ins.

Owns: formatting a remote traceback without sundog's frames; packing any exception so that it arrives whatever
its constructor, its attributes and the modules of the receiver look like. Refuses: raising, and setting or reading
through what the user's class overrides. An exception that resists becomes a stand-in that keeps its text, its
loadable base classes and its loadable attributes. Runs wherever a task fails (the worker) and wherever the error is
read (any owner). ::

    worker    exception ── portable ──► exception or stand-in ── pack ──► {exact bytes, outline}
    owner     {exact bytes, outline} ── unpack ──► the exception, or a stand-in made from the outline
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import traceback

    from sundog.plain import JsonObject

ErrorT = TypeVar("ErrorT", bound=BaseException)

_NO_FRAMES = "__sundog_no_frames__"  # an attribute of errors that `without_frames` has marked
_CHAIN_MAX = 16  # arbitrary; a retry loop can chain thousands of contexts, and the last ones are enough
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set on classes made by Python code, clear on those written in C
_ARGS: types.GetSetDescriptorType = vars(BaseException)["args"]
_NATIVE = (types.MemberDescriptorType, types.GetSetDescriptorType)
_PLAIN = (str, int, float, bool, bytes, type(None))
_REPR_MAX = 2000  # characters; enough to recognise a value, and few enough for an error
_TEXT_MAX = (
    200_000  # characters of a traceback, which ends with str() of an exception that may print its data
)
_COPY_HINT = (
    "Arrays that come out of an object, or arrive as an argument, are shared between processes and read-only. To "
    "change one, make a copy first: array = array.copy()"
)
_DIRECT_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING_HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def format_chain(exc: BaseException, hidden: tuple[str, ...]) -> str:
    """`exc` with its causes and contexts, innermost first, as the interpreter would print it."""
    try:
        parts = [_format_one(exc, hidden)]
        seen, current = {id(exc)}, exc
        while True:
            link = _DIRECT_CAUSE
            earlier = current.__cause__
            if earlier is None and not current.__suppress_context__:
                link, earlier = _DURING_HANDLING, current.__context__
            if earlier is None or id(earlier) in seen:
                break
            if len(seen) == _CHAIN_MAX:
                parts.append(f"[earlier exceptions left out]\n{link}")
                break
            parts.append(_format_one(earlier, hidden) + link)
            seen.add(id(earlier))
            current = earlier
        return _shorten("".join(reversed(parts)), _TEXT_MAX)
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as trouble:  # an exception whose own methods raise must not hide that the task failed
        return _format_frames(exc, hidden, trouble)


def hint_at_copy(exc: BaseException) -> None:
    """If code tried to change an array in shared memory, add a note to its error: what to do instead."""
    if not isinstance(exc, ValueError) or not exc.args or type(exc.args[0]) is not str:
        return
    if "read-only" in exc.args[0] and _COPY_HINT not in getattr(exc, "__notes__", ()):
        exc.add_note(_COPY_HINT)


def without_frames(error: ErrorT) -> ErrorT:
    """Mark an error that sundog itself raises in a worker for a mistake of the user's: no frame of ours explains it."""
    error.__dict__[_NO_FRAMES] = True
    return error


def _format_frames(exc: BaseException, hidden: tuple[str, ...], trouble: BaseException) -> str:
    """The least that can be said of an exception: where it was raised, and its name."""
    import traceback

    frames = [
        each for each in traceback.extract_tb(exc.__traceback__) if not each.filename.startswith(hidden)
    ]
    return (
        "Traceback (most recent call last):\n"
        + "".join(traceback.format_list(frames))
        + f"{type(exc).__qualname__}: {_safe(str, exc)}\n"
        + f"[not all of it could be formatted: {_safe(repr, trouble)}]\n"
    )


def _format_one(exc: BaseException, hidden: tuple[str, ...]) -> str:
    import traceback

    shown = traceback.TracebackException(type(exc), exc, exc.__traceback__)
    if _NO_FRAMES in exc.__dict__:
        shown.stack.clear()
    _hide_frames(shown, hidden)
    if getattr(type(exc), "continues_stack", False):
        # One continuous stack: the frames of the waiting task, then those of the awaited task.
        below: str = exc.remote_text()  # type: ignore[attr-defined]
        return "Traceback (most recent call last):\n" + "".join(shown.stack.format()) + f"{below}\n"
    return "".join(shown.format(chain=False))


def _hide_frames(shown: traceback.TracebackException, hidden: tuple[str, ...]) -> None:
    kept = [frame for frame in shown.stack if not frame.filename.startswith(hidden)]
    if kept:  # otherwise the error arose inside sundog, and its frames are all there is
        import traceback

        shown.stack = traceback.StackSummary.from_list(kept)
    for member in getattr(shown, "exceptions", None) or ():
        _hide_frames(member, hidden)


def _shorten(text: str, limit: int) -> str:
    """`text` without its middle, if it is too long: the beginning says where, the end says what."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[{len(text) - limit} characters left out]\n{text[-limit // 2 :]}"


def _safe(show: Callable[[object], str], value: object) -> str:
    try:
        return show(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(value).__qualname__}, whose {show.__name__}() fails>"


def bare_instance(cls: type[object], like: BaseException) -> Any:
    """An instance of `cls` that runs no constructor written in Python; only C knows how to lay it out."""
    args = (like.message, like.exceptions) if isinstance(like, BaseExceptionGroup) else ()
    for base in cls.__mro__:
        if not base.__flags__ & _HEAP_TYPE:
            try:
                return base.__new__(cls, *args)
            except TypeError:
                continue  # not the base that decides the layout
    raise TypeError(f"{cls!r} cannot be instantiated")


def args_of(exc: BaseException) -> tuple[object, ...]:
    """The arguments of an exception, whatever its class has put in the place of `args`."""
    found: tuple[object, ...] = _ARGS.__get__(exc)
    return found


def set_args(exc: BaseException, args: tuple[object, ...]) -> None:
    """Set them, even if the class is frozen."""
    _ARGS.__set__(exc, args)


def copy_native_fields(source: BaseException, target: BaseException) -> None:
    """Copy what C classes keep outside of `__dict__`: errno, filename, encoding, value, code, ..."""
    _set_fields(target, _native_fields(source))


def as_dual(error: Any, plain: type[object]) -> Any:
    """`error`, which tells of `error.cause`, as an instance of the class of that cause as well as of `plain`.

    The error itself where that adds nothing or cannot be, and for what steers the interpreter: an error of a
    remote task must not end the driver, or cancel its coroutines.
    """
    cause: BaseException = error.cause
    if isinstance(error, type(cause)) or isinstance(cause, _control_flow()):
        return error
    try:
        # mypy takes the __hash__ of the class's instances for that of the class.
        dual = bare_instance(_dual_class(plain, type(cause), "_sundog_packed" in vars(cause)), cause)  # type: ignore[arg-type]
        copy_native_fields(cause, dual)
        inherited = dict(vars(cause))
        inherited.pop("_sundog_packed", None)  # marks a stand-in, which the dual itself is not
        inherited.pop("__notes__", None)  # they are in the text, and would be printed twice
        if "message" not in inherited:
            # a property of the user's class, which the attribute would hide
            with contextlib.suppress(Exception):
                inherited["message"] = cause.message  # type: ignore[attr-defined]
        dual.__dict__.update(inherited)
        dual.__dict__.update(error.__dict__)
        if not isinstance(cause, BaseExceptionGroup):
            set_args(dual, (cause,))
    except Exception:  # a metaclass, __init_subclass__ or memory layout forbids it
        return error
    return dual


def _control_flow() -> tuple[type[BaseException], ...]:
    # asyncio is slow to import; if it is not imported, its CancelledError cannot have been raised.
    cancelled = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", SystemExit)
    return (SystemExit, KeyboardInterrupt, GeneratorExit, cancelled)


@lru_cache(maxsize=256)
def _dual_class(plain: type[object], cause_class: type[BaseException], is_stand_in: bool) -> type[object]:
    namespace = {"__module__": plain.__module__, "__doc__": plain.__doc__, "_dual_of": cause_class}
    # A frozen or comparable dataclass would make an error that cannot pass a with-block, or be hashed.
    namespace |= {
        name: getattr(BaseException, name) for name in ("__setattr__", "__delattr__", "__hash__", "__eq__")
    }
    name = f"{plain.__name__}({cause_class.__name__})"
    bases: tuple[type[object], ...] = (plain, cause_class)
    if (
        is_stand_in
    ):  # the exception itself could not be unpickled here: `except UnserializableException` catches it
        from sundog.exceptions import UnserializableException

        bases = (plain, cause_class, UnserializableException)
    return types.new_class(name, bases, exec_body=lambda ns: ns.update(namespace))


def _native_fields(exc: BaseException) -> JsonObject:
    names: list[str] = []
    for base in type(exc).__mro__:
        if not base.__flags__ & _HEAP_TYPE and base not in (BaseException, object):
            names += [name for name, member in vars(base).items() if isinstance(member, _NATIVE)]
    missing = object()
    found = {name: getattr(exc, name, missing) for name in names if not name.startswith("__")}
    return {name: value for name, value in found.items() if value is not missing}


def _set_fields(target: BaseException, values: dict[str, object]) -> None:
    for name, value in values.items():
        try:
            setattr(target, name, value)
        except (AttributeError, TypeError):
            continue  # read-only, such as the members of a group, which the constructor has set


def dumps(value: object) -> bytes:
    """`value` as bytes, functions and classes of `__main__` included."""
    import cloudpickle  # late: half the import time of this module, needed for few errors

    data: bytes = cloudpickle.dumps(value)
    return data


def _is_plain(exc: BaseException) -> bool:
    """Built in, with nothing but plain values in it: certain to survive pickling."""
    plain = all(type(arg) in _PLAIN for arg in args_of(exc))
    return plain and type(exc).__module__ == "builtins" and not exc.__dict__


def portable(exc: BaseException) -> BaseException:
    """`exc` if it survives a round trip through pickle, else a stand-in for it that does."""
    if _is_plain(exc) or _stand_in_pack(exc) is not None:
        return exc
    try:
        if isinstance(back := pickle.loads(dumps(exc)), type(exc)):
            return exc
        reason = f"it came back as {type(back).__qualname__}"
    except KeyboardInterrupt:
        raise
    except BaseException as trouble:
        reason = _safe(repr, trouble)
    return unpack({"exact": None, **_outline(exc, reason)})


def pack(exc: BaseException) -> JsonObject:
    """What travels for `exc`: itself as bytes, and an outline to rebuild from where those cannot be read."""
    if (packed := _stand_in_pack(exc)) is not None:
        return packed
    if _is_plain(exc):
        return {"plain": exc}
    try:
        exact = dumps(exc)
    except KeyboardInterrupt:
        raise
    except BaseException as trouble:
        return {"exact": None, **_outline(exc, _safe(repr, trouble))}
    reason = "its class is missing in this process, or its constructor wants other arguments"
    # The values are in `exact` already; a large one must not travel twice for so rare a case.
    return {"exact": exact, **_outline(exc, reason, brief=True)}


def _stand_in_pack(exc: BaseException) -> dict[str, object] | None:
    packed: dict[str, object] | None = vars(exc).get("_sundog_packed")
    return packed


def _outline(exc: BaseException, reason: str, *, brief: bool = False) -> JsonObject:
    """Each class, argument and attribute of `exc` packed by itself, so that only what cannot be packed is lost."""
    keep = _plain_or_repr if brief else _bytes_or_repr
    group = exc if isinstance(exc, BaseExceptionGroup) else None
    bases = (cls for cls in type(exc).__mro__ if cls not in (BaseException, object))
    return {
        "members": [pack(member) for member in group.exceptions] if group else [],
        "group_message": group.message if group else "",
        "classes": [data for data in map(_bytes_or_repr, bases) if isinstance(data, bytes)],
        "args": [keep(arg) for arg in args_of(exc)],
        "fields": {name: keep(value) for name, value in _native_fields(exc).items()},
        "attributes": {name: keep(value) for name, value in list(vars(exc).items())},
        "type": type(exc).__qualname__,
        "module": type(exc).__module__,
        "str": _shorten(_safe(str, exc), _REPR_MAX if brief else _TEXT_MAX),
        "repr": _shorten(_safe(repr, exc), _REPR_MAX if brief else _TEXT_MAX),
        "reason": reason,
    }


def _bytes_or_repr(value: object) -> bytes | str:
    try:
        data = dumps(value)
        pickle.loads(data)
        return data
    except KeyboardInterrupt:
        raise
    except BaseException:
        return _safe(repr, value)[:_REPR_MAX]


def _plain_or_repr(value: object) -> bytes | str:
    small = type(value) in _PLAIN and not (isinstance(value, (str, bytes)) and len(value) > _REPR_MAX)
    return pickle.dumps(value) if small else _safe(repr, value)[:_REPR_MAX]


def _value(packed: bytes | str) -> object:
    try:
        return pickle.loads(packed) if isinstance(packed, bytes) else packed
    except KeyboardInterrupt:
        raise
    except BaseException as trouble:
        return f"<could not be unpickled here: {_safe(repr, trouble)}>"


def unpack(packed: JsonObject) -> BaseException:
    """The exception that `pack` packed, or a stand-in: an instance of every base that can be loaded here."""
    if "plain" in packed:
        return packed["plain"]  # type: ignore[no-any-return]
    if packed["exact"] is not None:
        try:
            exact = pickle.loads(packed["exact"])
            if isinstance(exact, BaseException):
                return exact
        except KeyboardInterrupt:
            raise
        except BaseException:  # the outline below exists for this case
            pass
    bases: list[type[BaseException]] = []
    for cls in map(_value, packed["classes"]):
        if isinstance(cls, type) and issubclass(cls, BaseException):
            if not any(issubclass(known, cls) for known in bases):
                bases.append(cls)
    for chosen in (tuple(bases), tuple(bases[:1]), (Exception,)):
        try:
            stand_in = _stand_in(packed, chosen)
            break
        except Exception:
            continue
    _set_fields(stand_in, {name: _value(value) for name, value in packed["fields"].items()})
    stand_in.__dict__.update({name: _value(value) for name, value in packed["attributes"].items()})
    stand_in.__dict__["_sundog_packed"] = {**packed, "exact": None}
    return stand_in


def _stand_in(packed: JsonObject, bases: tuple[type[BaseException], ...]) -> BaseException:
    namespace = {
        "__module__": packed["module"],
        "__qualname__": packed["type"],
        "__doc__": f"Stands in for an exception that did not survive pickling: {packed['reason']}",
        "__str__": lambda self: packed["str"],
        "__repr__": lambda self: packed["repr"],
        "__reduce__": lambda self: (unpack, (self._sundog_packed,)),
    }
    name = packed["type"].rpartition(".")[2]
    cls = types.new_class(name, bases or (Exception,), exec_body=lambda ns: ns.update(namespace))
    if issubclass(cls, BaseExceptionGroup):
        group = BaseExceptionGroup(packed["group_message"], [unpack(member) for member in packed["members"]])
        stand_in: BaseException = bare_instance(cls, group)
        set_args(stand_in, (group.message, list(group.exceptions)))
    else:
        stand_in = bare_instance(cls, Exception())
        set_args(stand_in, tuple(map(_value, packed["args"])))
    return stand_in
