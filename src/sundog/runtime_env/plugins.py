"""Loads the user's plug-ins for `runtime_env`, and sets an environment up with them.

::

    first worker of an environment: lock <key>.make ─► validate, get_uris, create, modify_context ─► <key>.json
    later workers, while one of it lives (it holds <key>.use): read <key>.json
    both: environment variables of the context

Owns the files below `<session>/runtime_resources/plugins`. What a URI names is made once and used by every environment
that asks for it. The plug-in's `delete_uri` removes it when no worker uses it and the plug-in's sizes together pass
`RAY_RUNTIME_ENV_<NAME>_CACHE_SIZE_GB` (10), at the next setup. Locks on files tell what is in use: the kernel releases
them when a process dies, however it dies.
Refuses a context that changes the worker's command: workers are forked. Runs in a fresh worker, before any task.
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from sundog import trust
from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import plugin_settings
from sundog.runtime_env.fields import RuntimeEnv
from sundog.runtime_env.plugin import RuntimeEnvContext, RuntimeEnvPlugin
from sundog.runtime_env.snapshot import hash_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sundog.plain import JsonObject

ATTEMPTS = 3
PAUSE_S = 1.0
_GIGABYTE = 1024**3
_held: list[int] = []  # descriptors of this worker's locks, kept for its life


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plug-in that can be asked."""

    name: str
    priority: int
    plugin: RuntimeEnvPlugin  # the user's: with the methods of RuntimeEnvPlugin, inherited or its own


def load(text: str) -> list[Loaded]:
    """The plug-ins that the variable names, in the order in which they are set up.

    Raises:
        RuntimeEnvSetupError: the text or one of its classes cannot be used.
    """
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise _refused(f"is not JSON: {error}") from None
    if not isinstance(entries, list):
        raise _refused(f"must be a list of objects, got {text}")
    found: dict[str, Loaded] = {}
    for entry in entries:
        each = _load_one(entry)
        if each.name in found:
            raise _refused(f"has two plug-ins of the name {each.name!r}")
        found[each.name] = each
    return sorted(found.values(), key=lambda each: each.priority)


def _load_one(entry: object) -> Loaded:
    if not isinstance(entry, dict) or not isinstance(entry.get("class"), str):
        raise _refused(f'has the entry {entry!r}; an entry is an object such as {{"class": "module.Class"}}')
    path = entry["class"]
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        made = getattr(import_module(module), name)
    except Exception as error:
        raise _refused(f"names {path}, which cannot be imported: {type(error).__name__}: {error}") from error
    field = getattr(made, "name", None)
    if not isinstance(made, type) or not isinstance(field, str) or not field:
        raise _refused(
            f"names {path}; a plug-in is a subclass of RuntimeEnvPlugin whose attribute `name` is a field's name"
        )
    priority = entry.get("priority", getattr(made, "priority", RuntimeEnvPlugin.priority))
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= 100:
        raise _refused(f"gives {path} the priority {priority!r}; it must be a whole number from 0 to 100")
    if not issubclass(made, RuntimeEnvPlugin):
        # A class without the base class: its own methods, and the base class's for the others.
        made = type(made.__name__, (made, RuntimeEnvPlugin), {"__module__": made.__module__})
    return Loaded(field, priority, made())


def _refused(what: str) -> RuntimeEnvSetupError:
    return RuntimeEnvSetupError(f"RAY_RUNTIME_ENV_PLUGINS {what}.")


def set_up(classes: str, env: Mapping[str, object], key: str, folder: str, timeout_s: int) -> dict[str, str]:
    """Set an environment up with its plug-ins, or wait for the process that does; returns the variables to set.

    Args:
        classes: the variable's text.
        env: the environment, the plug-ins' fields among its own.
        key: the environment's key.
        folder: where this session keeps what it knows of plug-ins.
        timeout_s: seconds for one attempt; -1 is no limit.

    Raises:
        RuntimeEnvSetupError: a plug-in cannot be loaded, refused its field, failed three times or took too long.
    """
    loaded = load(classes)
    unknown = sorted(
        {name for name, _ in RuntimeEnv(_validate=False, **env).plugins()} - {p.name for p in loaded}
    )
    if unknown:
        names = ", ".join(each.name for each in loaded) or "none"
        raise RuntimeEnvSetupError(
            f"runtime_env has the field {unknown[0]!r}, but no plug-in handles it. Plug-ins loaded: {names}."
        )
    trust.make_folder(os.path.dirname(folder))
    trust.make_folder(folder)
    setup = _Setup(loaded, dict(env), folder, _logger(folder))
    made = os.path.join(folder, f"{key}.json")
    with _alone(os.path.join(folder, f"{key}.make")):
        in_use = not _unused(os.path.join(folder, f"{key}.use")) and os.path.exists(made)
        if not in_use or not setup.use_uris():
            context = setup.attempt_all(timeout_s)
            with open(made + ".part", "w", encoding="utf-8") as file:
                file.write(context.serialize())
            os.replace(made + ".part", made)
        with open(made, encoding="utf-8") as file:
            context = RuntimeEnvContext.deserialize(file.read())
        _use(os.path.join(folder, f"{key}.use"))
    return context.env_vars


@dataclass(frozen=True, slots=True)
class _Setup:
    loaded: list[Loaded]
    env: JsonObject
    folder: str
    logger: logging.Logger

    def attempt_all(self, timeout_s: int) -> RuntimeEnvContext:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                limit = None if timeout_s == -1 else timeout_s
                return asyncio.run(asyncio.wait_for(self._set_up(), limit))
            except Exception as error:
                self.logger.exception("Setup of a runtime_env failed, attempt %d of %d.", attempt, ATTEMPTS)
                if attempt == ATTEMPTS or isinstance(error, RuntimeEnvSetupError):
                    raise _failed(error, timeout_s) from error
            time.sleep(PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    async def _set_up(self) -> RuntimeEnvContext:
        context = RuntimeEnvContext(env_vars=dict(self.env.get("env_vars", {})))
        plain = vars(RuntimeEnvContext())
        for each in self._asked():
            env = RuntimeEnv(_validate=False, **self.env)
            each.plugin.validate(env)
            uris = list(each.plugin.get_uris(env))
            if not uris:
                await _awaited(each.plugin.create(None, env, context, logger=self.logger))
            for uri in uris:
                await self._make_uri(each, uri, env, context)
            each.plugin.modify_context(uris, env, context, self.logger)
        for name in ("command_prefix", "py_executable", "override_worker_entrypoint", "java_jars"):
            if getattr(context, name) != plain[name]:
                raise RuntimeEnvSetupError(
                    f"A plug-in changed {name} of the worker. Workers are forked, not started by a command; "
                    "a plug-in can change env_vars."
                )
        return context

    def _asked(self) -> list[Loaded]:
        return [each for each in self.loaded if self.env.get(each.name) is not None]

    async def _make_uri(self, each: Loaded, uri: str, env: RuntimeEnv, context: RuntimeEnvContext) -> None:
        place = self._place(each, uri)
        with _alone(place + ".make"):
            if not os.path.exists(place):
                size = await _awaited(each.plugin.create(uri, env, context, logger=self.logger))
                with open(place + ".part", "w", encoding="utf-8") as file:
                    json.dump({"uri": uri, "size_bytes": int(size or 0)}, file)
                os.replace(place + ".part", place)
            _use(place + ".use")
        self._make_room(each)

    def use_uris(self) -> bool:
        """Hold what the environment was made of, in a worker that found it made; False if a part is gone."""
        env = RuntimeEnv(_validate=False, **self.env)
        places = [self._place(each, uri) for each in self._asked() for uri in each.plugin.get_uris(env)]
        for place in places:
            _use(place + ".use")
        return all(map(os.path.exists, places))

    def _place(self, each: Loaded, uri: str) -> str:
        return os.path.join(self.folder, f"{hash_of([each.name])}-{hash_of([uri])}.uri")

    def _make_room(self, each: Loaded) -> None:
        """Remove what no job uses, oldest first, until the plug-in's sizes are within its limit."""
        limit = plugin_settings.cache_gb(each.name) * _GIGABYTE
        start = hash_of([each.name])
        places = [
            os.path.join(self.folder, name)
            for name in os.listdir(self.folder)
            if name.startswith(start) and name.endswith(".uri")
        ]
        places.sort(key=os.path.getmtime)
        sizes = {place: _read(place) for place in places}
        total = sum(size for _, size in sizes.values())
        for place in places:
            if total <= limit:
                return
            with _alone(place + ".make", wait=False) as mine:
                if mine and _unused(place + ".use"):
                    each.plugin.delete_uri(sizes[place][0], self.logger)
                    os.unlink(place)
                    total -= sizes[place][1]


async def _awaited(result: Awaitable[T]) -> T:  # what a user's plug-in gives may be no coroutine
    return await result if inspect.isawaitable(result) else result


def _failed(error: Exception, timeout_s: int) -> RuntimeEnvSetupError:
    if isinstance(error, RuntimeEnvSetupError):
        return error
    if isinstance(error, TimeoutError):
        return RuntimeEnvSetupError(
            f"The plug-ins of a runtime_env were not done within setup_timeout_seconds={timeout_s}. A higher limit: "
            'runtime_env={"config": {"setup_timeout_seconds": …}}.'
        )
    return RuntimeEnvSetupError(
        f"A plug-in of a runtime_env failed with {type(error).__name__}: {error}", cause=repr(error)
    )


def _read(place: str) -> tuple[str, int]:
    try:
        with open(place, encoding="utf-8") as file:
            row = json.load(file)
        return row["uri"], row["size_bytes"]
    except FileNotFoundError:  # another worker removed it
        return "", 0


@contextmanager
def _alone(path: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold a file's exclusive lock; without `wait`, gives False if another process holds it."""
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _use(path: str) -> None:
    """Hold a file's shared lock until this process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _held.append(descriptor)


def _unused(path: str) -> bool:
    """Whether no process holds the file's shared lock. Callers hold the `.make` lock beside it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _logger(folder: str) -> logging.Logger:
    """What plug-ins say goes to a file of the session, for it may hold secrets."""
    logger = logging.getLogger("sundog.runtime_env.plugins")
    logs = os.path.join(os.path.dirname(os.path.dirname(folder)), "logs")
    if not logger.handlers and os.path.isdir(logs):
        handler = logging.FileHandler(os.path.join(logs, "runtime_env_setup.log"), delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
