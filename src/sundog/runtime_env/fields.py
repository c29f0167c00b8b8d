"""The fields of a runtime environment as the user writes them: checked, and merged with the parent's.

Owns: `RuntimeEnv`, its fields and their errors. Refuses: touching anything but the
paths it is asked to check. Runs in the submitting process, on the calling thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from difflib import get_close_matches
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

from sundog.plain import JsonMapping, JsonObject
from sundog.runtime_env import plugin_settings
from sundog.runtime_env.ignores import check_excludes
from sundog.runtime_env.packages import PIP, UV, check_packages
from sundog.runtime_env.snapshot import is_zip

__tracebackhide__ = True  # pytest folds the frames of this file

CONFIG_DEFAULTS: dict[str, object] = {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []}
UNSUPPORTED = {
    "conda": "Use pip=[...], or start sundog from inside the conda environment.",
    "container": "Start sundog inside the container instead.",
    "image_uri": "Start sundog inside the container instead.",
    "java_jars": "sundog runs Python only.",
    "py_executable": "Workers run the driver's interpreter; use pip=[...] for other packages.",
    "nsight": "Run the whole program under nsys instead.",
    "rocprof_sys": "Run the whole program under rocprof-sys instead.",
}


class UnknownSetting(TypeError, ValueError):
    """A setting that there is none of; Python's own error for an unknown argument is a TypeError."""


class RuntimeEnvConfig(JsonObject):
    """How an environment is set up: `setup_timeout_seconds` (600; -1 waits for ever), `eager_install`,
    `log_files` (the last two are accepted for Ray's sake)."""

    known_fields: ClassVar[frozenset[str]] = frozenset(CONFIG_DEFAULTS)

    def __init__(self, **settings: object) -> None:
        unknown = [name for name in settings if name not in CONFIG_DEFAULTS]
        if unknown:
            raise UnknownSetting(_unknown("runtime_env['config']", unknown[0], list(CONFIG_DEFAULTS)))
        timeout = settings.get("setup_timeout_seconds", 600)
        if not isinstance(timeout, int) or isinstance(timeout, bool):
            raise TypeError(f"setup_timeout_seconds must be a whole number of seconds, got {timeout!r}")
        if timeout != -1 and timeout <= 0:
            raise ValueError(f"setup_timeout_seconds must be positive, or -1 for no limit, got {timeout}")
        if not isinstance(settings.get("eager_install", True), bool):
            raise TypeError(f"eager_install must be True or False, got {settings['eager_install']!r}")
        _check_strings("config']['log_files")(settings.get("log_files", []))
        super().__init__({**CONFIG_DEFAULTS, **settings})

    @staticmethod
    def parse_and_validate_runtime_env_config(config: Mapping[str, object]) -> RuntimeEnvConfig:
        """The settings of a dict, or of another one of these, checked."""
        return _check_config(config)

    @classmethod
    def default_config(cls) -> RuntimeEnvConfig:
        """What holds where nothing is said."""
        return cls()

    def to_dict(self) -> JsonObject:
        return dict(self)


class RuntimeEnv(JsonObject):
    """A checked runtime environment; a plain dict of the same fields is accepted wherever this is.

    Args:
        env_vars: variables for the worker, str to str; `${NAME}` and `$NAME` stand for the worker's own value.
        working_dir: a directory or .zip file; the workers run in a copy of it.
        py_modules: directories, .py files, wheels or imported modules to put on the workers' `sys.path`.
        excludes: gitignore-style patterns of what to leave out of the copies.
        pip: packages to install: a list, a requirements file, or a dict with `packages`, `pip_check`,
            `pip_install_options`. `uv` takes the like, by its own names, and is installed by pip.
        worker_process_setup_hook: a function, or its dotted name, to call in each new worker.
        config: see `RuntimeEnvConfig`.

    Raises:
        ValueError: an unknown field, a path that does not exist, pip together with uv or conda.
        TypeError: a field of the wrong type.

    >>> RuntimeEnv(env_vars={"OMP_NUM_THREADS": "4"})
    {'env_vars': {'OMP_NUM_THREADS': '4'}}
    """

    known_fields: ClassVar[frozenset[str]] = frozenset(
        {"env_vars", "working_dir", "py_modules", "excludes", "pip", "uv", "config", *UNSUPPORTED}
    ) | {"worker_process_setup_hook"}

    def __init__(self, *, _validate: bool = True, **fields: object) -> None:
        given = {name: value for name, value in fields.items() if value is not None}
        super().__init__(check_fields(given) if _validate else given)
        for name in ("env_vars", "pip", "uv"):  # an empty field is the same as none
            if name in self and not (self[name].get("packages") if _is_packages(self[name]) else self[name]):
                del self[name]

    def __setitem__(self, name: str, value: object) -> None:
        if name in _CHECKS and value is not None:
            value = _CHECKS[name](value)
        super().__setitem__(name, value)

    def get(self, name: str, default: Any = None, data_class: type | None = None) -> Any:
        """A field, or the default; as an object of `data_class` made of the field's entries, if one is given."""
        if name not in self:
            return default
        value = self[name]
        return value if data_class is None else data_class(**value)

    def has_working_dir(self) -> bool:
        return bool(self.get("working_dir"))

    def working_dir(self) -> str:
        return str(self.get("working_dir") or "")

    def env_vars(self) -> dict[str, str]:
        return dict(self.get("env_vars", {}))

    def py_modules(self) -> list[object]:
        return list(self.get("py_modules", []))

    def has_pip(self) -> bool:
        return bool(self.get("pip"))

    def has_uv(self) -> bool:
        return bool(self.get("uv"))

    def has_conda(self) -> bool:
        return bool(self.get("conda"))

    def has_py_container(self) -> bool:
        return bool(self.get("container"))

    def pip_config(self) -> JsonObject:
        """What pip is to install; empty without any."""
        return dict(self.get("pip") or {})

    def uv_config(self) -> JsonObject:
        """What uv is to install; empty without any."""
        return dict(self.get("uv") or {})

    def conda_config(self) -> str | None:
        """The conda environment as JSON, if it is described and not named."""
        value = self.get("conda")
        return json.dumps(value, sort_keys=True) if isinstance(value, dict) else None

    def conda_env_name(self) -> str | None:
        """The conda environment's name, if it is named."""
        value = self.get("conda")
        return value if isinstance(value, str) else None

    def image_uri(self) -> str | None:
        value: str | None = self.get("image_uri")
        return value

    def py_executable(self) -> str | None:
        value: str | None = self.get("py_executable")
        return value

    def java_jars(self) -> list[str]:
        return list(self.get("java_jars", []))

    def nsight(self) -> object:
        return self.get("nsight")

    def plugins(self) -> list[tuple[str, object]]:
        """The fields that are not built in."""
        return [(name, value) for name, value in self.items() if name not in self.known_fields]

    def set(self, name: str, value: object) -> None:
        """Change one field; it is checked as at construction."""
        self.update(check_fields({**self, name: value}))

    def to_dict(self) -> JsonObject:
        return dict(self)

    def serialize(self) -> str:
        return json.dumps(self, sort_keys=True)

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        return cls(_validate=False, **json.loads(serialized_runtime_env))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (dict(self),)


def _is_packages(value: object) -> bool:
    return isinstance(value, Mapping) and "packages" in value


def _rebuild(fields: dict[str, object]) -> RuntimeEnv:
    return RuntimeEnv(_validate=False, **fields)


def _unknown(where: str, name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{where} has no field {name!r}.{hint} The fields are: {', '.join(sorted(known))}."


def check_fields(env: Mapping[str, object]) -> JsonObject:
    """A copy of `env` with every field checked and in its full form.

    Raises:
        ValueError, TypeError: as for `RuntimeEnv`.
    """
    installers = [name for name in ("pip", "uv", "conda") if env.get(name)]
    if len(installers) > 1:
        raise ValueError(f"runtime_env can have one of pip, uv and conda, got {' and '.join(installers)}")
    checked: dict[str, object] = {}
    for name, value in env.items():
        if name.startswith("_"):
            continue  # Ray's own entries (_ray_commit, …) in dicts that Ray made
        if name not in RuntimeEnv.known_fields and plugin_settings.classes():
            checked[name] = _check_plugin_value(name, value)
            continue
        if name not in RuntimeEnv.known_fields:
            raise ValueError(_unknown("runtime_env", name, list(RuntimeEnv.known_fields)))
        checked[name] = _CHECKS[name](value) if name in _CHECKS else value
    return checked


def _check_env_vars(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"runtime_env['env_vars'] must map str to str, got {type(value).__name__}")
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            odd = key if not isinstance(key, str) else text
            raise TypeError(
                f"runtime_env['env_vars'] must map str to str, but the entry {key!r}: {text!r} has "
                f"something of type {type(odd).__name__}. Write it as a string: {str(key)!r}: {str(text)!r}"
            )
        if not key or "=" in key or "\0" in key + text:
            raise ValueError(f"runtime_env['env_vars'] has {key!r}, which cannot be the name of a variable")
    return dict(value)


def _check_path(field: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"runtime_env[{field!r}] must be a path, got {type(value).__name__}")
    path = os.path.expanduser(os.fspath(value))
    if not isinstance(path, str):
        raise TypeError(f"runtime_env[{field!r}] must be a str path, got bytes")
    path = path.removeprefix("file://")
    if "://" in path:
        raise ValueError(
            f"runtime_env[{field!r}] is {path!r}: remote URIs are not fetched. Download it and give the path."
        )
    if not os.path.exists(path):
        raise ValueError(f"runtime_env[{field!r}] is {path!r}, which does not exist (looked from {_here()})")
    return os.path.abspath(path)


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that was removed"


def _check_working_dir(value: object) -> str:
    path = _check_path("working_dir", value)
    if not os.path.isdir(path) and not is_zip(path):
        raise ValueError(
            f"runtime_env['working_dir'] is {path!r}, which is neither a directory nor a .zip file"
        )
    return path


def _check_py_modules(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"runtime_env['py_modules'] must be a list of paths or modules, got {type(value).__name__}"
        )
    paths = []
    for item in value:
        if isinstance(item, ModuleType):
            item = next(iter(getattr(item, "__path__", [])), None) or item.__file__
        paths.append(_check_path("py_modules", item))
    return paths


def _check_strings(field: str) -> Callable[[object], list[str]]:
    def check(value: object) -> list[str]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise TypeError(f"runtime_env['{field}'] must be a list of str, got {value!r}")
        return list(value)

    return check


def _check_excludes(value: object) -> list[str]:
    patterns = _check_strings("excludes")(value)
    check_excludes(patterns)
    return patterns


def _check_hook(value: object) -> object:
    # Bytes are a function pickled before: a task's own environment, handed on to the tasks it submits.
    if not callable(value) and not isinstance(value, bytes) and not (isinstance(value, str) and "." in value):
        raise TypeError(
            f"runtime_env['worker_process_setup_hook'] must be a function or 'module.function', got {value!r}"
        )
    return value


def _check_plugin_value(name: str, value: object) -> object:
    """A plug-in's field; the plug-in itself checks it in the worker. The value travels as JSON."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"runtime_env[{name!r}] must be a value that JSON can hold: {error}") from None
    return plain


def _check_conda(value: object) -> object:
    if not isinstance(value, (str, dict)):
        raise TypeError(f"runtime_env['conda'] must be a name, a file or a dict, got {type(value).__name__}")
    if isinstance(value, str) and value.endswith((".yml", ".yaml")):
        import yaml

        try:
            with open(os.path.expanduser(value), encoding="utf-8") as file:
                return yaml.safe_load(file)
        except FileNotFoundError:
            raise ValueError(f"runtime_env['conda'] is {value!r}, which does not exist") from None
    return value


def _check_config(value: object) -> RuntimeEnvConfig:
    if not isinstance(value, Mapping):
        raise TypeError(f"runtime_env['config'] must be a dict, got {type(value).__name__}")
    return RuntimeEnvConfig(**value)


_CHECKS: dict[str, Callable[[object], object]] = {
    "env_vars": _check_env_vars,
    "working_dir": _check_working_dir,
    "py_modules": _check_py_modules,
    "excludes": _check_excludes,
    "pip": partial(check_packages, PIP),
    "uv": partial(check_packages, UV),
    "conda": _check_conda,
    "worker_process_setup_hook": _check_hook,
    "config": _check_config,
}


def merge(parent: JsonMapping | None, child: JsonMapping | None) -> JsonObject:
    """What a child runs in: its own fields, the parent's others, and both their variables (child's win).

    >>> merge({"env_vars": {"A": "1", "B": "1"}, "working_dir": "x"}, {"env_vars": {"B": "2"}})
    {'env_vars': {'A': '1', 'B': '2'}, 'working_dir': 'x'}
    """
    above, own = dict(parent or {}), {k: v for k, v in (child or {}).items() if v is not None}
    installers = {"pip", "uv", "conda"}
    if installers & own.keys():
        above = {name: value for name, value in above.items() if name not in installers}
    merged = {**above, **own}
    if "env_vars" in above and "env_vars" in own:
        merged["env_vars"] = {**above["env_vars"], **own["env_vars"]}
    return merged
