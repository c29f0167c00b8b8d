"""Which installed packages workers will import to run what a driver ships, told to the node with the first function.

::

    driver ──Hello(announces)──► node            no worker is forked yet
    driver ──Imported(modules)─► node ──Learn──► zygote imports them once
                                 node ──Fork───► zygote forks workers that have them

A worker that unpickles a function imports the modules that the function names. Two workers that are forked before do it
twice: for pandas or scikit-learn that is a second of processor time and 90 MB each. So a driver that has loaded one of
the packages in `isolation.SHAREABLE` says what its functions name, and its first workers are forked afterwards.

Owns the search through functions, classes and modules of the user's. The search never calls code
of the user's and never fails a program: what it does not find, workers import by themselves. Runs in a driver, once, on
the thread that makes the first function or actor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from sundog.isolation import SITE_FOLDERS
from sundog.serialize.by_code import names_in, submodules

_VALUES_MAX = 20_000  # arbitrary: a search that takes longer than the imports is of no use
_ITEMS_MAX = 100  # arbitrary: the others are of the same kind
_LIBRARY = os.path.dirname(os.__file__)
_CALLABLES = (FunctionType, BuiltinFunctionType, type)
_REMOTE = ("sundog.remote_function", "sundog.actor")


class Announcement:
    """Says once what workers need; `send` gets folder and name of each module."""

    def __init__(self, packages: Mapping[str, str], send: Callable[[list[tuple[str, str]]], None]) -> None:
        self._packages = packages
        self._send: Callable[[list[tuple[str, str]]], None] | None = send

    def make(self, first: object) -> None:
        """A function or class is about to be shipped, or values that one will get. The remote functions of the
        program's own file are looked at with the first one: they will follow it.
        """
        send, self._send = self._send, None
        if send is None:
            return
        try:
            modules = modules_for([first, *_of_main(first)], self._packages)
        except Exception:  # an odd object among the user's globals: no reason to fail its program
            modules = []
        send([(self._packages[name.partition(".")[0]], name) for name in modules])


def _of_main(first: object) -> list[object]:
    """What the program's own file defines and workers may run: a pool ships a function of ours before the user's."""
    main = sys.modules.get("__main__")
    values = list(vars(main).values()) if main is not None else []
    is_ours = _is_definition(first) and str(_said(first, "__module__")).startswith("sundog.")
    return [
        value
        for value in values
        if type(value).__module__ in _REMOTE
        or (is_ours and _is_definition(value) and _said(value, "__module__") == "__main__")
    ]


def _is_definition(value: object) -> bool:
    return issubclass(type(value), (FunctionType, type))


def _said(value: object, name: str) -> object:
    """What a function or class says of itself, without asking its metaclass."""
    return type.__getattribute__(value, name) if isinstance(value, type) else getattr(value, name, None)


def _values(module: ModuleType) -> dict[str, object]:
    """The globals of a module, without loading one that waits for its first use."""
    found: dict[str, object] = ModuleType.__getattribute__(module, "__dict__")
    return found


def modules_for(definitions: Iterable[object], packages: Mapping[str, str]) -> list[str]:
    """The modules of these packages that a process imports to unpickle and run these functions and classes."""
    search = _ModuleSearch(packages)
    for definition in definitions:
        search.visit(definition, set())
    return sorted(search.found)


class _ModuleSearch:
    def __init__(self, packages: Mapping[str, str]) -> None:
        self.packages = packages
        self.found: set[str] = set()
        self._seen: set[int] = set()

    def visit(self, value: object, names: set[str]) -> None:
        """Look at a value that some code can reach; `names` are all names in that code."""
        kind = type(value)  # not isinstance(), which asks some objects
        if issubclass(kind, ModuleType):
            self._module(ModuleType.__getattribute__(value, "__name__"), names)
            return
        if id(value) in self._seen or len(self._seen) >= _VALUES_MAX:
            return
        self._seen.add(id(value))
        if kind.__module__ in _REMOTE:
            self.visit(getattr(value, "_function", None) or vars(value).get("_cls"), names)
        elif issubclass(kind, _CALLABLES):
            self._callable(value)
        elif kind in (tuple, list):
            for each in value[:_ITEMS_MAX]:  # type: ignore[index]
                self.visit(each, names)
        elif kind is dict:
            assert isinstance(value, dict)
            for each in [*value.values()][:_ITEMS_MAX]:
                self.visit(each, names)
        else:
            self._module(kind.__module__, set())

    def _callable(self, value: object) -> None:
        module = _said(value, "__module__")
        if not isinstance(module, str):
            return
        if module != "__main__" and "<locals>" not in str(_said(value, "__qualname__")):
            self._module(module, set())  # pickled by its name: the worker imports all of its module
        else:
            self._definition(value)

    def _definition(self, value: object) -> None:
        """A function or class of the user's: what its code names."""
        if type(value) is FunctionType:
            self._function(value)
            return
        assert isinstance(value, type)
        for base in type.__getattribute__(value, "__mro__")[1:]:
            self.visit(base, set())
        for member in list(type.__getattribute__(value, "__dict__").values()):
            if type(member) in (staticmethod, classmethod):
                member = member.__func__
            elif type(member) is property:
                member = member.fget
            if type(member) is FunctionType:
                self._function(member)

    def _function(self, function: FunctionType) -> None:
        if id(function.__code__) in self._seen:
            return
        self._seen.add(id(function.__code__))
        inner = function.__dict__.get("__wrapped__")
        if type(inner) is FunctionType:
            self.visit(inner, set())
        names = names_in(function.__code__)
        known = function.__globals__
        for name in sorted(names & known.keys()):
            self.visit(known[name], names)
        for name in _imported_in(function.__code__):
            self._module(name, set())
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents, names)
            except ValueError:  # the variable has no value yet
                continue

    def _module(self, name: str, names: set[str]) -> None:
        module = sys.modules.get(name)
        if not issubclass(type(module), ModuleType):
            return
        assert module is not None
        if name.partition(".")[0] in self.packages:
            self.found.add(name)
            self.found |= submodules(name, names)
            self.found |= _loaded_at_use(module, names)
        elif id(module) not in self._seen and _is_users(module):
            self._seen.add(id(module))
            for value in list(_values(module).values()):
                self.visit(value, set())
                if _is_definition(value) and _said(value, "__module__") == name:
                    self._definition(value)


def _loaded_at_use(package: ModuleType, names: set[str]) -> set[str]:
    """Modules inside a package that are imported when code first names them, as numpy.random is."""
    known = _values(package)
    places = known.get("__path__")
    folder = next(iter(places), "") if isinstance(places, Iterable) else ""
    return {
        f"{known['__name__']}.{name}"
        for name in names - known.keys()
        if folder
        and (os.path.exists(f"{folder}/{name}/__init__.py") or os.path.exists(f"{folder}/{name}.py"))
    }


def _imported_in(code: CodeType) -> set[str]:
    """Names that a piece of code may import: `import a.b` and `from a import b` have "a.b" and "a" among the names."""
    dotted = {name.partition(".")[0] for name in code.co_names if "." in name}
    found = {name for name in dotted.union(code.co_names) if name in sys.modules}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _imported_in(each)
    return found


def _is_users(module: ModuleType) -> bool:
    """Whether a module is neither the standard library's, nor sundog's, nor of an installed package."""
    known = _values(module)
    file = known.get("__file__")
    if type(file) is not str or str(known["__name__"]).partition(".")[0] == "sundog":
        return False
    return not file.startswith(_LIBRARY) and not set(file.split(os.sep)) & set(SITE_FOLDERS)
