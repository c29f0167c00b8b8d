"""`sundog run script.py ARGS…`: like `python script.py ARGS…`, with `import ray` giving sundog.

Owns the likeness: `sys.argv`, `sys.path[0]`, a fresh `__main__`, the exit code, and tracebacks that begin
in the user's own file. Refuses to interpret anything after the script's name: those arguments are the
script's. The script runs in this process and its main thread, after click's frames have been left, so that
Ctrl-C, SystemExit and a broken pipe mean to it what they always do.
"""

import contextlib
import importlib.util
import io
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, NoReturn

import click

from sundog import config
from sundog.cli import exits, rows

if TYPE_CHECKING:
    from sundog.util import progress

_EXAMPLES = rows.examples(
    ("sundog run train.py --epochs 3", "as python train.py --epochs 3 would"),
    ("sundog run --progress train.py", "with a live bar for each function"),
    ("sundog run --engine ray train.py", "on a Ray cluster, with sundog's records"),
    ("sundog run --doctor train.py", "then say what kept it from being faster"),
    ("sundog run -m package.module", "as python -m package.module would"),
)


@dataclass(frozen=True)
class UserProgram:
    """What to run as `__main__`: a script (also a folder or zip with a `__main__.py`), or a module."""

    target: str
    arguments: tuple[str, ...]
    is_module: bool
    progress: bool = False  # show bars while it runs
    engine: str = ""  # where it runs; "" as the setting says
    doctor: bool = False  # examine its session when it has ended

    def __call__(self) -> None:
        """Run it. Returns when the program ends normally; raises SystemExit or what the program raised."""
        self._choose_engine()
        sys.argv = [self.target, *self.arguments]
        bars = _bars() if self.progress else None
        examine = _examination() if self.doctor else None
        try:
            code, main = self._prepare()
            sys.modules["__main__"] = main
            exec(code, main.__dict__)
        except SystemExit:
            raise
        except BaseException as error:
            if bars is not None:
                bars.stop()  # before the traceback, not in the middle of it
            _report(error)
            raise
        finally:
            if bars is not None:
                bars.stop()
            if examine is not None:
                examine()

    def _choose_engine(self) -> None:
        """What `import ray` gives: sundog, or on a Ray cluster Ray itself, whose verbs are recorded."""
        if (self.engine or config.engine_asked()) != "ray":
            if self.engine:
                config.set_child_environ({"SUNDOG_ENGINE": self.engine})
            from sundog import compat

            compat.install()
            return
        from sundog.ray_engine.instrument import instrument

        config.set_child_environ({"SUNDOG_ENGINE": "ray"})
        try:
            instrument()
        except ImportError as error:
            _refuse(str(error), exits.FAILED)

    def _prepare(self) -> tuple[CodeType, ModuleType]:
        if self.is_module:
            _set_first_path(os.getcwd())
            return _module_main(self.target)
        if self.target == "-":
            _set_first_path("")
            return compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), _make_main("<stdin>")
        if os.path.isdir(self.target) or zipfile.is_zipfile(self.target):
            _set_first_path(self.target)
            return _folder_main(self.target)
        # Python resolves links for the path of imports, but not for the name that tracebacks show.
        _set_first_path(os.path.dirname(os.path.realpath(self.target)))
        return _script_main(os.path.abspath(self.target))


def _bars() -> "progress":
    from sundog.util import progress

    return progress().__enter__()


def _examination() -> Callable[[], None]:
    """What shows the doctor's report when the program has ended: on stderr, for stdout is the program's."""
    from sundog import engines

    sessions: list[str] = []
    engines.when_leaving(lambda: sessions.append(_session_path()))

    def examine() -> None:
        from sundog import api

        with contextlib.suppress(Exception):
            if api.is_initialized():
                api.shutdown()
        if not sessions:
            click.echo(
                "sundog run: the program started no session, so there is nothing to examine.", err=True
            )
            return
        from rich.console import Console

        from sundog.advice.doctor import examine_session
        from sundog.observe.sessions import NoSuchSession, open_session

        try:
            report = examine_session(open_session(sessions[-1]))
        except (NoSuchSession, OSError) as error:
            click.echo(f"sundog run: the session cannot be examined: {error}", err=True)
            return
        if sys.stderr.isatty():
            Console(stderr=True, highlight=False).print(report.rich())
        else:
            click.echo(str(report), err=True)

    return examine


def _session_path() -> str:
    from sundog.owner import context

    return str((context.facts.session or {}).get("path", ""))


def _script_main(path: str) -> tuple[CodeType, ModuleType]:
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        _refuse(f"cannot open {path!r}: {error.strerror}", exits.USAGE)
    return compile(source, path, "exec", dont_inherit=True), _make_main(path)


def _folder_main(path: str) -> tuple[CodeType, ModuleType]:
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None:
        _refuse(f"there is no __main__.py in {path!r}", exits.FAILED)
    return _code_of(spec, "__main__"), _make_main(spec.origin, spec)


def _module_main(name: str) -> tuple[CodeType, ModuleType]:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # A parent that does not exist; what an existing parent fails to import is the program's own error.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        _refuse(f"no module named {name!r}", exits.FAILED)
    sys.argv[0] = spec.origin or name
    return _code_of(spec, name), _make_main(spec.origin, spec)


def _code_of(spec: ModuleSpec, name: str) -> CodeType:
    get_code: Callable[[str], CodeType | None] | None = getattr(spec.loader, "get_code", None)
    code = get_code(name) if get_code is not None else None
    if code is None:
        _refuse(f"{name!r} has no Python code that could be run", exits.FAILED)
    return code


def _make_main(path: str | None, spec: ModuleSpec | None = None) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(
        __builtins__=sys.modules["builtins"],
        __file__=path,
        __spec__=spec,
        __loader__=spec.loader if spec is not None else None,
        __package__=spec.parent if spec is not None else None,
        __cached__=None,
    )
    return main


def _set_first_path(folder: str) -> None:
    # The first entry is the folder of the command `sundog`: the script must have its own folder there. Under
    # `python -P` Python adds no such entry, and neither does sundog.
    if not sys.flags.safe_path:
        sys.path[:1] = [folder]


def _refuse(message: str, code: int) -> NoReturn:
    click.echo(f"sundog run: {message}", err=True)
    raise SystemExit(code)


def _report(error: BaseException) -> None:
    """Show the error as python would, without our frames, and keep the interpreter from showing it again.

    The error itself goes on to the interpreter: only that ends the process properly for each kind (1 for an
    exception, death by SIGINT for Ctrl-C) after threads and exit handlers had their turn.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and trace is not None and _is_importlib(trace.tb_frame.f_code):
        trace = None
    hook = sys.excepthook
    hook(type(error), error.with_traceback(trace), trace)
    sys.excepthook = lambda *_: None


def _is_importlib(code: CodeType) -> bool:
    return code.co_filename.startswith("<frozen importlib")


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    short_help="Run a Python program that says `import ray`, unchanged.",
    epilog=_EXAMPLES,
)
@click.option("-m", "as_module", is_flag=True, help="TARGET is a module's name, as with python -m.")
@click.option("--progress", is_flag=True, help="Show a live bar for each function while it runs.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default=None,
    help="Where the program runs: on this machine (local) or on a Ray cluster (ray).",
)
@click.option(
    "--doctor",
    is_flag=True,
    help="When the program has ended, report on stderr what kept it from being faster.",
)
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    as_module: bool,
    progress: bool,
    engine: str | None,
    doctor: bool,
    target: str,
    arguments: tuple[str, ...],
) -> UserProgram:
    """Run a Python program, as `python TARGET ARGUMENTS…` would, with `import ray` giving sundog.

    TARGET is a script, a folder or zip file with a __main__.py, a module's name after -m, or - for standard
    input. Everything after it is the program's own. Programs that say `import sundog` run as well. With --engine ray
    both run on a Ray cluster (RAY_ADDRESS says which), and `import ray` is Ray itself.
    """
    return UserProgram(target, arguments, as_module, progress, engine or "", doctor)
