"""Plain functions of a script, pickled by their code without cloudpickle.

cloudpickle gives a function that does the same, but takes 15 ms to import: in the driver, and again on the way to the
first worker. Owns which functions are plain: defined at the top of ``__main__``, with no closure, and naming nothing
there but modules, constants, other plain functions, and what has a name in another module. Refuses every other function
by giving None: cloudpickle knows what to do with it. As there, a function takes along the values that its globals have
now, and the functions of one pickle share their globals.

Pure; runs in the process that defines a function, and in the workers that run it.
"""

from __future__ import annotations

import marshal
import pickle
import sys
from collections.abc import Mapping
from importlib import import_module
from types import BuiltinFunctionType, CodeType, FunctionType, GenericAlias, ModuleType, UnionType

_MAIN = "__main__"
_CONSTANTS = frozenset({int, float, complex, str, bytes, bool, type(None), type(...)})
_LONG = 4096  # longer constants are seldom meant: a name of an attribute may be that of a global by chance
# In version 2 of the format the bytes depend on the code alone, not on which of its strings others use too.
_MARSHAL = 2
# What a module says of itself, and a function may read.
_OF_MODULE = ("__package__", "__name__", "__path__", "__file__")
_OWN = (
    "__name__",
    "__qualname__",
    "__doc__",
    "__module__",
    "__defaults__",
    "__kwdefaults__",
    "__annotations__",
)


class Unnamed(Exception):
    """A value that only cloudpickle can take along."""


class _Coded:
    """Stands for a plain function while it is pickled."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[object, ...]) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[object, ...]:
        return (built, self.parts)


def pickled(function: FunctionType) -> bytes | None:
    """The pickle of a plain function; None of any other function."""
    try:
        parts = reduced(function)
        return None if parts is None else pickle.dumps(_Coded(parts), 5)
    except Exception:
        return None  # a strange global: cloudpickle takes it along, or says why it cannot


def reduced(function: FunctionType) -> tuple[object, ...] | None:
    """What `built` takes to make a plain function again; None of any other function."""
    main = sys.modules.get(_MAIN)
    if main is None or function.__globals__ is not vars(main):
        return None
    names = vars(main)
    functions = [function]
    values: dict[str, object] = {each: names[each] for each in _OF_MODULE if each in names}
    modules: dict[str, str] = {}
    found: dict[str, int] = {}
    described: list[tuple[bytes, dict[str, object]]] = []
    inner: set[str] = set()
    try:
        for each in functions:  # grows while it is read
            described.append(_described(each, names))
            used = names_in(each.__code__)
            for name in sorted(used & names.keys() - values.keys() - modules.keys() - found.keys()):
                value = names[name]
                if isinstance(value, ModuleType):
                    modules[name] = _named_module(value)
                elif type(value) is FunctionType and value.__globals__ is names:
                    if value not in functions:
                        functions.append(value)
                    found[name] = functions.index(value)
                else:
                    values[name] = _checked(value)
            for name in modules.values():
                inner |= submodules(name, used)
    except (Unnamed, ValueError):
        return None
    return described, values, modules, found, sorted(inner)


def built(
    described: list[tuple[bytes, dict[str, object]]],
    values: dict[str, object],
    modules: Mapping[str, str],
    found: Mapping[str, int],
    submodules: list[str],
) -> FunctionType:
    """The function of which `reduced` told, the first of those described."""
    names: dict[str, object] = dict(values)
    names["__builtins__"] = __builtins__
    functions = []
    for code, own in described:
        made = FunctionType(marshal.loads(code), names)
        for attribute, value in own.items():
            setattr(made, attribute, value)
        functions.append(made)
    for name, module in modules.items():
        names[name] = import_module(module)
    for module in submodules:
        import_module(module)
    for name, place in found.items():
        names[name] = functions[place]
    return functions[0]


def _described(function: FunctionType, names: Mapping[str, object]) -> tuple[bytes, dict[str, object]]:
    """The code of a function, and what else it is made of."""
    if function.__closure__ or function.__dict__ or getattr(function, "__type_params__", None):
        raise Unnamed
    if function.__module__ != _MAIN or getattr(function, "__builtins__", None) is not _builtins():
        raise Unnamed
    _checked(function.__defaults__)
    _checked(function.__doc__)
    for value in (*(function.__kwdefaults__ or {}).values(), *function.__annotations__.values()):
        _checked(value)
    own = {each: getattr(function, each) for each in _OWN}
    return marshal.dumps(function.__code__, _MARSHAL), own


def _builtins() -> Mapping[str, object]:
    """The names that every function sees."""
    return vars(sys.modules["builtins"])


def names_in(code: CodeType) -> set[str]:
    """All names in a piece of code and in those inside it: globals, and attributes too."""
    found = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= names_in(each)
    return found


def _checked(value: object) -> object:
    """The value, if pickle takes it along as cloudpickle does.

    Raises:
        Unnamed: it does not, or that is not certain.
    """
    kind = type(value)
    if value is type(None):
        return value
    if kind in _CONSTANTS:
        if (kind is str or kind is bytes) and len(value) > _LONG:  # type: ignore[arg-type]
            raise Unnamed
        return value
    if kind is tuple or kind is frozenset:
        for each in value:  # type: ignore[attr-defined]
            _checked(each)
        return value
    if kind is GenericAlias:
        _checked(value.__origin__)  # type: ignore[attr-defined]
        _checked(value.__args__)  # type: ignore[attr-defined]
        return value
    if kind is UnionType:
        _checked(value.__args__)  # type: ignore[attr-defined]
        return value
    if kind in (FunctionType, BuiltinFunctionType) or isinstance(value, type):
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if type(module) is str and module != _MAIN and "." not in name:
            if getattr(sys.modules.get(module), name, None) is value:
                return value
    raise Unnamed


def _named_module(module: ModuleType) -> str:
    name = module.__name__
    if name == _MAIN or sys.modules.get(name) is not module:
        raise Unnamed
    return name


def submodules(package: str, used: set[str]) -> set[str]:
    """The modules inside a package that the code seems to use: ``import a.b`` binds only ``a``."""
    if not hasattr(sys.modules[package], "__path__"):
        return set()
    start = f"{package}."
    return {
        name
        for name, module in list(sys.modules.items())
        if name.startswith(start) and module is not None and used.issuperset(name[len(start) :].split("."))
    }
