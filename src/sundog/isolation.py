"""How programs of ours are started: no folder of the user's can put a module in place of the library's or ours.

::

    driver ── posix_spawn: python -P <the driver's flags> -c <prelude> ──► launcher, then node
                                                                              └─ fork ─► zygote ─ fork ─► worker

Owns the command line, the variables that are hidden from the interpreter while it starts, and the import path of node
and zygote: the standard library, then `Ours`, which finds sundog and the packages that it needs by name, where the
driver has them, and nothing else. Other entries of `sys.path` are put aside. A worker is the user's: it gets the
driver's path and, if they differ, the driver's warning filters (`take_over`).

Imports next to nothing, for every `init()` waits for it. Runs in the process that starts a session, then in what it
started.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# What node and zygote import besides the standard library and sundog. The packages of the command line are
# not needed.
PACKAGES = ("cloudpickle", "psutil", "setproctitle", "threadpoolctl")
# Variables that make the interpreter import from a folder of the user at its start, or write to the terminal.
# They are restored before a worker is forked.
_HIDDEN = ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONINSPECT", "PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME")
# Variables that say where the library is. If the program has changed one since its own start, the interpreter would not
# find the library.
_PLACES = ("PYTHONHOME", "PYTHONPLATLIBDIR")
_HIDING_PREFIX = "_SUNDOG_KEPT_"
# -X options that change what the user's code does. The others print, or slow down code that is not the
# user's.
_X_OPTIONS = (
    "context_aware_warnings",
    "cpu_count",
    "dev",
    "frozen_modules",
    "gil",
    "int_max_str_digits",
    "no_debug_ranges",
    "pycache_prefix",
    "thread_inherit_context",
    "tracemalloc",
    "warn_default_encoding",
)
SITE_FOLDERS = ("site-packages", "dist-packages")
_CUSTOMIZERS = ("sitecustomize", "usercustomize")


class Ours:
    """Finds sundog and its packages by their names, each where it was found before. Stands on `sys.meta_path`."""

    def __init__(self, places: Mapping[str, Sequence[str]]) -> None:
        self.places = dict(places)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of ours is; None for any other, and for modules inside packages."""
        places = self.places.get(name)
        if places is None:
            return None
        finder = sys.modules["_frozen_importlib_external"]
        found: ModuleSpec | None = finder.PathFinder.find_spec(name, places)
        return found


class LastResort:
    """Finds the library, and packages of ours, should the program empty `sys.path`. The last on `sys.meta_path`."""

    def __init__(self, path: Sequence[object]) -> None:
        library = sys._stdlib_dir or os.path.dirname(os.__file__)  # type: ignore[attr-defined]
        entries = [entry for entry in path if isinstance(entry, str)]
        self.library = list(
            dict.fromkeys(
                [*(each for each in entries if _is_of_library(each)), library, f"{library}/lib-dynload"]
            )
        )
        self.installed = [entry for entry in entries if os.path.basename(entry) in SITE_FOLDERS]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is that no other finder knows; None for modules inside packages, and for those of others.

        Raises:
            ModuleNotFoundError: sundog's own files, or the library's, are out of reach.
        """
        if path is not None:
            if name.startswith("sundog."):
                _check_reach(_source(), name)
            return None
        if name in sys.stdlib_module_names:
            places = self.library
        elif name in PACKAGES or name == "sundog":
            places = [_source(), *self.installed]
        else:
            return None
        finder = sys.modules["_frozen_importlib_external"]
        found: ModuleSpec | None = finder.PathFinder.find_spec(name, places)
        if found is None:
            _check_reach(
                places[0] if name not in sys.stdlib_module_names else os.path.dirname(os.__file__), name
            )
        return found


def _check_reach(folder: str, name: str) -> None:
    """Raises: ModuleNotFoundError: the folder, or the zip file, in which a module should be cannot be read."""
    if not os.access(folder, os.R_OK, effective_ids=True):
        raise ModuleNotFoundError(
            f"The module {name} cannot be loaded: this process cannot read {folder} any more. It was removed or "
            "updated, or the program has changed its user or its root folder (os.setuid, os.chroot): do so before "
            "sundog is imported, with a Python that can still be read then.",
            name=name,
        )


def note_shadows(error: BaseException) -> None:
    """Say with an error which files of the program stand in place of modules of the library: they may be the cause."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name not in sys.stdlib_module_names or not isinstance(file, str):
            continue
        if os.path.basename(file) == f"{name}.py" and not _is_of_library(os.path.dirname(file)):
            error.add_note(
                f"The program's own file {file} stands in place of Python's module {name}, which sundog needs. "
                "Give it another name."
            )


def _is_of_library(entry: str) -> bool:
    library = sys._stdlib_dir  # type: ignore[attr-defined]
    return entry == library or entry.endswith(("/lib-dynload", _library_zip()))


def _library_zip() -> str:
    return f"/python{sys.version_info[0]}{sys.version_info[1]}.zip"


def stand_by() -> None:
    """From now on this process finds what sundog imports late, whatever the program does to `sys.path`."""
    if not any(isinstance(finder, LastResort) for finder in sys.meta_path):
        sys.meta_path.append(LastResort(sys.path))


# ---------------------------------------------------------------------- the command line
def command(call: str) -> list[str]:
    """The command that runs `call`, such as "sundog.node.launch.main()", in an interpreter like this one, isolated."""
    module, _, function = call.partition("(")[0].rpartition(".")
    source = _source()
    prelude = (
        # With the garbage collector off during imports, which create almost no garbage.
        "import gc, sys; gc.disable(); library = sys._stdlib_dir; "
        "sys.path[:] = [each for each in sys.path if not library or each == library "
        f"or each.endswith(('/lib-dynload', {_library_zip()!r}))] + [{source!r}]; "
        f"from sundog.isolation import isolate; isolate({source!r}, {_places()!r}); "
        f"from {module} import {function}; {function}({call.partition('(')[2]}"
    )
    return [sys.executable, *flags(), "-c", prelude]


def flags() -> list[str]:
    """Flags of this interpreter that a worker needs too, so that the user's code does there what it does here."""
    own = sys.flags
    # -P: the working folder is not on the path.
    out = ["-I"] if own.isolated else ["-P", *(["-E"] if own.ignore_environment else [])]
    out += [letter for letter, is_on in (("-s", own.no_user_site), ("-S", own.no_site)) if is_on]
    out += ["-O"] * own.optimize + ["-b"] * own.bytes_warning
    if sys.dont_write_bytecode:
        out.append("-B")
    out += [
        "-X",
        f"utf8={own.utf8_mode}",
    ]  # may also come from the locale, or from a variable that -E ignores
    for name in _X_OPTIONS:
        value = sys._xoptions.get(name)
        if value:
            out += ["-X", name if value is True else f"{name}={value}"]
    return out


def _source() -> str:
    """The folder, or the zip file, that this package is in."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _places() -> list[str]:
    """Where to look for packages of ours: beside sundog, then where packages are installed, then on the user's path.

    Not in the folder of the user's program, unless sundog itself is there.
    """
    for finder in sys.meta_path:
        if isinstance(finder, Ours):
            return list(finder.places[PACKAGES[0]])
    entries = [entry for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry)]
    installed = [entry for entry in entries if os.path.basename(entry) in SITE_FOLDERS]
    if not installed:  # the program may have emptied its path
        installed = [
            each for finder in sys.meta_path if isinstance(finder, LastResort) for each in finder.installed
        ]
    others = [entry for entry in entries if sys.flags.safe_path or entry != sys.path[0]]
    return list(dict.fromkeys([_source(), *installed, *others]))


# ---------------------------------------------------------------------- the environment
def hide(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment to start an isolated interpreter with: some variables are kept under another name."""
    return {
        _HIDING_PREFIX + name if _is_hidden(name, value) else name: value for name, value in environ.items()
    }


def _is_hidden(name: str, value: str) -> bool:
    if name == "PYTHONHOME":
        return value.partition(":")[0] != sys.base_prefix
    if name == "PYTHONPLATLIBDIR":
        return value != sys.platlibdir
    return name in _HIDDEN


def unhide(environ: Mapping[str, str]) -> dict[str, str | None]:
    """What to change in such an environment so that it is the user's again."""
    changes: dict[str, str | None] = {}
    for name in (*_HIDDEN, *_PLACES):
        kept = environ.get(_HIDING_PREFIX + name)
        if kept is not None:
            changes[name] = kept
            changes[_HIDING_PREFIX + name] = None
    return changes


# ---------------------------------------------------------------------- in what was started
def isolate(source: str, places: list[str]) -> None:
    """The first thing a program of ours does: from here on it imports the standard library and what is ours."""
    sys.path.pop()  # the folder in which this module was found
    sys.meta_path.insert(0, Ours({"sundog": [source], **dict.fromkeys(PACKAGES, places)}))


def also_find(name: str, folder: str) -> None:
    """Let this program import one package more, from where the driver has it."""
    for finder in sys.meta_path:
        if isinstance(finder, Ours):
            finder.places.setdefault(name, [folder])


def find_packages() -> None:
    """Let this program import any package that the driver has installed; the library's and ours still come first.

    The node needs it once it spills to a URL: which package can write there is fsspec's to find out.
    """
    for finder in sys.meta_path:
        if isinstance(finder, Ours):
            sys.path += [place for place in finder.places[PACKAGES[0]] if place not in sys.path]


def working_folder() -> str:
    """The folder that this process is in; "" if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


class Interpreter:
    """What a worker takes over from its driver: the import path, options of warnings, what ran at its start."""

    __slots__ = ("customizers", "sys_path", "warnoptions")

    def __init__(self, sys_path: list[str], warnoptions: list[str], customizers: list[str]) -> None:
        self.sys_path = sys_path
        self.warnoptions = warnoptions
        self.customizers = customizers


def describe_interpreter() -> Interpreter:
    """What a worker takes over from this process, its driver."""
    # "" means the current folder of the program; a worker's may change with its environment.
    path = [working_folder() if entry == "" else entry for entry in sys.path if isinstance(entry, str)]
    return Interpreter(path, list(sys.warnoptions), [name for name in _CUSTOMIZERS if name in sys.modules])


def take_over(interpreter: Interpreter) -> None:
    """Become an interpreter for the user's code: its driver's path, and what its driver ran at its own start."""
    sys.path[:] = interpreter.sys_path
    for finder in [each for each in sys.meta_path if isinstance(each, Ours)]:
        # What the driver finds first must be found first here too.
        sys.meta_path.remove(finder)
        sys.meta_path.append(finder)
    if interpreter.warnoptions != sys.warnoptions:
        import warnings

        sys.warnoptions[:] = interpreter.warnoptions
        warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    finders = list(sys.meta_path)
    for name in interpreter.customizers:
        if name not in sys.modules:  # the module is on the driver's path only, so the zygote did not run it
            _customize(name)
    if any(finder not in finders for finder in sys.meta_path):
        # In the driver an import hook of the customizer saw the import of sundog. Here sundog was imported
        # before.
        from importlib import reload

        reload(sys.modules["sundog"])


def _customize(name: str) -> None:
    try:
        __import__(name)
    except ImportError:
        pass  # the driver's file has been removed
    except Exception as error:
        # As in the interpreter itself: an error in a customizer does not stop the program.
        print(f"Error in {name}: {type(error).__name__}: {error}", file=sys.stderr)


_SCRIPT_MAX_BYTES = 1 << 20


def preloadable(*names: str) -> list[tuple[str, str]]:
    """Of packages that this process has imported, those installed as packages are, with their folders."""
    found = []
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        folder = os.path.dirname(os.path.dirname(file)) if file else ""
        if os.path.basename(folder) in SITE_FOLDERS:
            found.append((name, folder))
    return found


# Their import takes long, starts no thread and opens nothing, so a process that has them can be forked; the zygote
# looks all the same. What is not here is learned when workers have imported it, and tried in a probe before.
SHAREABLE = (
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "skimage",
    "statsmodels",
    "networkx",
    "sympy",
    "torch",
)


def shareable() -> dict[str, str]:
    """The packages of the list that this process has loaded, each with the folder in which it is installed."""
    return dict(preloadable(*SHAREABLE))


_wanted: dict[str, list[str]] = {}  # a module of sundog -> the folders of the packages that it needs


def workers_want(module: str, *packages: str) -> None:
    """Workers of this program will need a module of sundog's: zygotes of later sessions load it before they fork.

    Nothing is loaded early if one of the packages that the module imports is not installed as packages are.
    """
    from importlib.util import find_spec

    folders = []
    for name in packages:
        spec = find_spec(name)
        folder = os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else ""
        if os.path.basename(folder) not in SITE_FOLDERS:
            return
        folders.append(folder)
    _wanted[module] = list(dict.fromkeys(folders))


def wanted() -> tuple[list[str], list[str]]:
    """The modules that workers of this program will need, and the folders of what these import."""
    return list(_wanted), list(dict.fromkeys(folder for each in _wanted.values() for folder in each))


def loaded_packages() -> list[str]:
    """The packages that this process has loaded from where packages are installed."""
    found = []
    for name, module in list(sys.modules.items()):
        if "." not in name:
            file = getattr(module, "__file__", None)
            if type(file) is str and any(f"/{folder}/{name}" in file for folder in SITE_FOLDERS):
                found.append(name)
    return found


def main_needs_pickler(attribute: bytes) -> bool:
    """Whether the program's own file decorates by this name, as in `@ray.remote`, or passes what it defines to it, and
    its workers will need cloudpickle for that: there is a class in it, or a function inside another.

    A guess, from the text: what is defined in that file is pickled by value, plain functions without cloudpickle
    (`serialize/by_code.py`). The guess decides what is imported early, and nothing else.
    """
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(path, str):
        return False
    try:
        with open(path, "rb") as file:
            text = file.read(_SCRIPT_MAX_BYTES)
    except OSError:
        return False
    defined: set[bytes] = set()
    decorates = is_rich = False
    for line in text.splitlines():
        words = line.split(None, 2)[:2]
        if line.lstrip()[:1] == b"@" and attribute in line:
            decorates = True
            is_rich |= line[:1] != b"@"
        if len(words) == 2 and words[0] in (b"def", b"class"):
            defined.add(words[1].partition(b"(")[0].rstrip(b":"))
            is_rich |= words[0] == b"class"
    if not is_rich:
        return False
    # f = ray.remote(work)
    return decorates or any(
        part.partition(b")")[0].strip() in defined for part in text.split(attribute + b"(")[1:]
    )
