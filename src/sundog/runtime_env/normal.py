"""A runtime environment with everything local resolved, and how a worker becomes it.

Owns: `normalize`, the key by which workers are shared, and the order in which an environment is applied.
`normalize` runs in the submitting process, `apply_in_worker` once in a fresh worker, before user code.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import site
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sundog import config
from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import cache, plugin_settings
from sundog.runtime_env.fields import CONFIG_DEFAULTS, UNSUPPORTED, RuntimeEnv, check_fields
from sundog.runtime_env.snapshot import hash_of, store

__tracebackhide__ = True  # pytest folds the frames of this file

_PIP_FORM = 2  # version of how an environment is made: another version is another environment
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class NormalEnv:
    """A runtime environment with everything local resolved: plain strings that any process can apply.

    Workers are shared only between tasks of equal `key`; it is "" for the empty environment.
    """

    env_vars: tuple[tuple[str, str], ...] = ()
    working_dir: str = ""
    py_modules: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    pip_options: tuple[str, ...] = ()
    pip_check: bool = False
    pip_dir: str = ""
    setup_hook: bytes | str = ""
    setup_timeout_s: int = 600
    plugins: str = ""  # the classes, as the variable names them
    plugin_fields: str = ""  # the fields that they answer for, as JSON
    plugin_dir: str = ""
    key: str = ""

    def as_runtime_env(self) -> dict[str, object]:
        """The same environment as a mapping: what a task hands on to the tasks it submits. `normalize` of it
        copies nothing, for the paths are copies already."""
        raw: dict[str, object] = {"env_vars": dict(self.env_vars), "working_dir": self.working_dir}
        raw["py_modules"] = list(self.py_modules)
        if self.pip:
            options = {"pip_install_options": list(self.pip_options)} if self.pip_options else {}
            raw["pip"] = {"packages": list(self.pip), "pip_check": self.pip_check, **options}
        raw["worker_process_setup_hook"] = self.setup_hook
        raw |= json.loads(self.plugin_fields or "{}")
        return {name: value for name, value in raw.items() if value}

    @property
    def needs_prepare(self) -> bool:
        """Whether `prepare` has to run before a worker can apply this."""
        return bool(self.pip_dir) and not (
            os.path.exists(os.path.join(self.pip_dir, ".ready")) and cache.is_safe(self.pip_dir)
        )

    def apply_in_worker(self) -> None:
        """Make this process that environment: variables, directory, `sys.path`, then the hook.

        Raises:
            RuntimeEnvSetupError: the directory or the pip environment is gone, or the hook failed.
        """
        environ = config.user_environ()
        updates = {name: _expand(value, environ) for name, value in self.env_vars}
        paths = [path for path in (self.working_dir, *self.py_modules) if path]
        for path in paths:
            if not os.path.isdir(path):
                raise RuntimeEnvSetupError(
                    f"The copy at {path} of a working_dir or py_modules is gone.", path=path
                )
        if self.pip_dir:
            paths += self._pip_paths()
            path = updates.get("PATH", environ.get("PATH", os.defpath))
            updates["PATH"] = os.path.join(self.pip_dir, "bin") + os.pathsep + path
            updates["VIRTUAL_ENV"] = self.pip_dir
        if paths:
            # For what the task itself starts: its python subprocesses import the same modules.
            inherited = updates.get("PYTHONPATH", environ.get("PYTHONPATH", ""))
            updates["PYTHONPATH"] = os.pathsep.join([*paths, inherited] if inherited else paths)
            sys.path[:] = paths + [path for path in sys.path if path not in paths]
        config.set_child_environ(updates)
        if self.working_dir:
            os.chdir(self.working_dir)
        if self.plugin_fields:
            self._run_plugins()
        if self.setup_hook:
            self._run_hook()

    def _pip_paths(self) -> list[str]:
        if self.needs_prepare:
            raise RuntimeEnvSetupError(
                f"The pip environment {self.pip_dir} for {', '.join(self.pip)} does not exist any more.",
                path=self.pip_dir,
            )
        before = list(sys.path)
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        # addsitedir also reads .pth files, which editable and namespace packages need.
        site.addsitedir(os.path.join(self.pip_dir, "lib", name, "site-packages"))
        added = [path for path in sys.path if path not in before]
        sys.path[:] = before
        return added

    def _run_plugins(self) -> None:
        from sundog.runtime_env import plugins  # few environments have plug-ins

        mine = self.as_runtime_env()
        asked = plugins.set_up(self.plugins, mine, self.key, self.plugin_dir, self.setup_timeout_s)
        environ = config.user_environ()
        config.set_child_environ(
            {
                name: _expand(value, environ)
                for name, value in asked.items()
                if (name, value) not in self.env_vars
            }
        )

    def _run_hook(self) -> None:
        try:
            if isinstance(self.setup_hook, bytes):
                import cloudpickle

                hook = cloudpickle.loads(self.setup_hook)
            else:
                module, _, name = self.setup_hook.rpartition(".")
                hook = getattr(importlib.import_module(module), name)
            hook()
        except Exception as exc:
            text = f"worker_process_setup_hook failed with {type(exc).__name__}: {exc}"
            raise RuntimeEnvSetupError(text, cause=repr(exc)) from exc


def _expand(value: str, environ: Mapping[str, str]) -> str:
    if "$" not in value:
        return value
    return _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], found[0] if found[2] else ""), value)


def _options(pip: Mapping[str, object]) -> tuple[str, ...]:
    """Options for pip; those of uv are its own, and pip is what installs here."""
    given = pip.get("pip_install_options", ())
    assert isinstance(given, (list, tuple))
    return tuple(given)


def _is_checked(pip: Mapping[str, object]) -> bool:
    return bool(pip.get("pip_check") or pip.get("uv_check"))


def _pip_dir(pip: Mapping[str, object], session_dir: str) -> str:
    """Where the virtual environment of these packages is or will be; "" without packages."""
    if not pip.get("packages"):
        return ""
    wanted = [pip["packages"], list(_options(pip)), _is_checked(pip)]
    identity = [_PIP_FORM, sys.version, sys.prefix, *wanted]
    return os.path.join(cache.pip_folder(session_dir), hash_of(identity))


def _packed_hook(hook: Callable[[], object] | bytes | str) -> bytes | str:
    """A hook that is a function, pickled; one that is named, or pickled already, as it is."""
    if not callable(hook):
        return hook
    import cloudpickle

    packed: bytes = cloudpickle.dumps(hook)
    return packed


def normalize(runtime_env: Mapping[str, object] | None, *, session_dir: str) -> NormalEnv:
    """Resolve a runtime environment in the submitting process.

    Directories are copied into the session at this moment, so later edits do not reach running work. An
    unchanged directory is recognised by names, sizes and times, and not copied again; still, it is walked,
    so callers keep the result per options object.

    Raises:
        ValueError, TypeError: as for `RuntimeEnv`, or a field that sundog does not support.
        RuntimeEnvSetupError: a directory over 512 MiB, or one that cannot be read.
    """
    if not runtime_env:
        return NormalEnv()
    if not isinstance(runtime_env, Mapping):
        raise TypeError(f"runtime_env must be a dict or RuntimeEnv, got {type(runtime_env).__name__}")
    env = check_fields({name: value for name, value in runtime_env.items() if value is not None})
    for name, advice in UNSUPPORTED.items():
        if env.get(name) is not None:  # an empty value was also given
            raise ValueError(f"runtime_env[{name!r}] is not supported by sundog. {advice}")
    resources = os.path.join(session_dir, "runtime_resources")
    excludes = tuple(env.get("excludes", ()))
    working_dir = ""
    if env.get("working_dir"):
        working_dir = store(env["working_dir"], os.path.join(resources, "working_dir_files"), excludes, "")
    folder = os.path.join(resources, "py_modules_files")
    modules = tuple(
        store(path, folder, excludes, os.path.basename(path)) for path in env.get("py_modules", ())
    )
    pip = env.get("pip") or env.get("uv") or {}
    pip_dir = _pip_dir(pip, session_dir)
    hook = _packed_hook(env.get("worker_process_setup_hook", ""))
    variables = tuple(sorted(env.get("env_vars", {}).items()))
    others = {name: value for name, value in env.items() if name not in RuntimeEnv.known_fields}
    fields = json.dumps(others, sort_keys=True) if others else ""
    classes = plugin_settings.classes() if others else ""
    # The copies' names are hashes of their content, so the key is the same in every session.
    copies = [os.path.basename(path) for path in (working_dir, *modules, pip_dir)]
    parts = [variables, any(copies) and copies, hook.hex() if isinstance(hook, bytes) else hook]
    if others:
        parts += [fields, classes]
    return NormalEnv(
        env_vars=variables,
        working_dir=working_dir,
        py_modules=modules,
        pip=tuple(pip.get("packages", ())),
        pip_options=_options(pip),
        pip_check=_is_checked(pip),
        pip_dir=pip_dir,
        setup_hook=hook,
        setup_timeout_s=env.get("config", CONFIG_DEFAULTS)["setup_timeout_seconds"],
        plugins=classes,
        plugin_fields=fields,
        plugin_dir=os.path.join(resources, "plugins") if others else "",
        key=hash_of(parts) if any(parts) else "",
    )
