"""What the zygote is to learn: packages that workers of this session import again and again.

Owns the count of workers that have imported each package, and what came of it. A package counts if a worker in the
plain environment of its job imported it from where packages are installed; the second worker decides, or the first if
the driver had loaded it before. The zygote learns the package when the next worker is started: while the workers that
are there do all the work, two more imports (one to try, one to keep) would help no worker. A session that uses runtime
environments, or has drivers with different import paths, learns nothing: what a module reads at its import must be what
its worker would have read. Runs on the node's one thread.

The creator of an actor names modules of ours and of the standard library that the actor's process needs (`imports`):
to import asyncio takes three quarters of an asyncio actor's start. The zygote imports them right before it forks a
worker for such an actor; or before any other fork, once two actors have needed them. No probe tries these first.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sundog.node.rows import Process
from sundog.wire.control import Hello, Imported
from sundog.wire.zygote import Import, Learn, Learned

if TYPE_CHECKING:
    from sundog.net.loop import Line
    from sundog.node.interfaces import WithWorkers
    from sundog.wire.status import LearnedFigures

_WORKERS = 2  # when this many workers have imported a package, later workers are expected to import it too
# arbitrary: a session that still finds new packages after this many requests gains nothing from more
_ASKS_MAX = 20


class Learning:
    """The zygote's lessons. `why_not`: the reason why there are none in this session."""

    def __init__(self, node: WithWorkers) -> None:
        self.node = node
        self.why_not = "" if node.config.learn_imports else "learn_imports is off"
        self.refused: dict[str, str] = {}  # package -> why
        self.learned: list[str] = []
        self.seconds = 0.0
        self.kib = 0
        self._driver_has: set[str] = set()
        self._path: list[str] | None = None
        self._workers: dict[str, set[bytes]] = {}
        self._modules: dict[str, list[str]] = {}  # package -> its modules, in the order of their imports
        self._folders: dict[str, str] = {}
        self._asked: set[str] = set()
        self._asks = 0
        self._loading = False  # the zygote loads what a driver has announced
        self._needs: Counter[str] = Counter()  # module -> how many actors needed it
        self._coming: list[str] = []  # what the actor needs that is being placed
        self._given: WeakKeyDictionary[Line, set[str]] = WeakKeyDictionary()

    # ------------------------------------------------------------------ what is heard
    def driver_came(self, loaded: list[str], path: list[str]) -> None:
        """A driver says which packages it has loaded, and where it imports from."""
        self._driver_has.update(loaded)
        if self._path is None:
            self._path = path
        elif path != self._path:
            self._unlearn("drivers have different import paths")

    def environment_came(self, runtime_env: dict[str, object]) -> None:
        """A runtime environment will be used: its variables and paths hold before its workers import anything."""
        if runtime_env:
            self._unlearn("runtime environments are used")

    def waits_for(self, message: Hello) -> bool:
        """Whether a driver's first workers are forked only when it has said what they will import."""
        return message.announces and not self.why_not

    def announced(self, message: Imported) -> None:
        """What a driver's workers will import: the zygote loads it before it forks them."""
        zygote = self.node.workers.zygote
        folders = list(dict.fromkeys(folder for folder, _ in message.modules))
        modules = [name for _, name in message.modules]
        if self.why_not or zygote is None or not modules:
            return
        self._asked.update(name.partition(".")[0] for name in modules)
        self._loading = True
        zygote.send(Learn(folders, modules, sorted(self._driver_has), now=True))

    def imported(self, process: Process, message: Imported) -> None:
        """A worker has imported modules of installed packages."""
        if self.why_not:
            return
        for folder, module in message.modules:
            package = module.partition(".")[0]
            if self._folders.setdefault(package, folder) == folder:
                self._workers.setdefault(package, set()).add(process.process_id)
                modules = self._modules.setdefault(package, [])
                if package not in self._asked and module not in modules:
                    modules.append(module)

    def _due(self) -> list[str]:
        """The packages that are to be learned."""
        return [
            package
            for package, workers in self._workers.items()
            if package not in self._asked and (len(workers) >= _WORKERS or package in self._driver_has)
        ]

    def worker_starts(self) -> None:
        """A worker is started, and more may be: have the zygote learn what is due, for those after this one."""
        if self.why_not or self._asks >= _ASKS_MAX or self.node.workers.zygote is None:
            return
        ripe = self._due()
        if not ripe:
            return
        self._asks += 1
        self._asked.update(ripe)
        modules = [module for package in ripe for module in self._modules.pop(package)]
        folders = list(dict.fromkeys(self._folders[package] for package in ripe))
        self.node.workers.zygote.send(Learn(folders, modules, sorted(self._workers)))

    @contextlib.contextmanager
    def actor_comes(self, imports: list[str]) -> Iterator[None]:
        """An actor is placed meanwhile: a worker that is forked now is for it."""
        self._needs.update(imports)
        self._coming = imports
        try:
            yield
        finally:
            self._coming = []

    def before_fork(self, zygote: Line) -> None:
        """A worker is about to be forked: have the zygote import what actors need, unless that may help no actor."""
        if not self._needs or self.why_not:
            return
        given = self._given.setdefault(zygote, set())
        coming = self._coming
        due = [
            name
            for name, actors in self._needs.items()
            if name not in given and (name in coming or actors >= _WORKERS)
        ]
        if due:
            given.update(due)
            zygote.send(Import([(name, "") for name in due]))

    def answered(self, message: Learned) -> None:
        """The zygote has learned packages, or leaves them alone."""
        self._loading = False
        if message.reason:
            self.refused.update(dict.fromkeys(message.packages, message.reason))
            self.node.log(f"the zygote leaves {', '.join(message.packages)} to the workers: {message.reason}")
        else:
            self.learned += message.packages
            self.seconds += message.seconds
            self.kib += message.kib

    def zygote_gone(self) -> None:
        """The zygote died, perhaps of what it had learned: the next one learns nothing."""
        if (self.learned or self._loading) and not self.why_not:
            self.why_not = f"a zygote that {'loaded' if self._loading else 'had learned'} packages died"
        self._loading = False
        self.learned, self.kib, self.seconds = [], 0, 0.0

    def _unlearn(self, reason: str) -> None:
        if not self.why_not:
            self.why_not = reason
            if self._asked:
                # A zygote cannot unload modules: start a new one.
                self.node.workers.kill_zygote()

    # ------------------------------------------------------------------ what is shown
    def figures(self) -> LearnedFigures:
        """For `sundog status`."""
        return {
            "packages": sorted(self.learned),
            "seconds": self.seconds,
            "bytes": self.kib * 1024,
            "refused": dict(self.refused),
            "why_not": self.why_not,
            "due": sorted(self._due()) if not self.why_not else [],
        }
