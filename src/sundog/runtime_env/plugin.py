"""What a plug-in for `runtime_env` is made of: the base class and the context that it may change.

A plug-in gives `runtime_env` a field of its own. The variable `RAY_RUNTIME_ENV_PLUGINS` (or
`SUNDOG_RUNTIME_ENV_PLUGINS`) names the classes, as JSON: `[{"class": "module.Class", "priority": 10}]`. Programs
written for Ray import the two names from `ray._private.runtime_env.plugin` and `.context`.

Owns the two classes. Refuses to load or call plug-ins (`plugins.py`). Runs wherever it is imported.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.runtime_env.fields import RuntimeEnv

__all__ = ["RuntimeEnvContext", "RuntimeEnvPlugin"]


class RuntimeEnvContext:
    """How a worker of the environment will start; plug-ins change it.

    `env_vars` takes effect. The other attributes are there for programs that read them: a worker of sundog is forked,
    so a plug-in that changes one of them fails with RuntimeEnvSetupError.
    """

    def __init__(
        self,
        command_prefix: list[str] | None = None,
        env_vars: dict[str, str] | None = None,
        py_executable: str | None = None,
        override_worker_entrypoint: str | None = None,
        java_jars: list[str] | None = None,
    ) -> None:
        self.command_prefix = command_prefix or []
        self.env_vars = env_vars or {}
        self.py_executable = py_executable or sys.executable
        self.override_worker_entrypoint = override_worker_entrypoint
        self.java_jars = java_jars or []

    def serialize(self) -> str:
        """All attributes as JSON."""
        return json.dumps(vars(self))

    @staticmethod
    def deserialize(json_string: str) -> RuntimeEnvContext:
        """The context that `serialize` wrote down."""
        return RuntimeEnvContext(**json.loads(json_string))


class RuntimeEnvPlugin:
    """Base class of plug-ins. A subclass sets `name`, the field of `runtime_env` that it answers for.

    `priority` is a whole number from 0 to 100: plug-ins of lower numbers are set up first. The class is made without
    arguments. Its methods run in the first worker of an environment, before any task.
    """

    name: str | None = None
    priority: int = 10

    @staticmethod
    def validate(runtime_env_dict: dict[str, object]) -> None:
        """Raise ValueError if the field's value cannot be used."""

    def get_uris(self, runtime_env: RuntimeEnv) -> list[str]:
        """Names of what the environment needs; what has one is made once and shared by environments."""
        return []

    async def create(
        self, uri: str | None, runtime_env: RuntimeEnv, context: RuntimeEnvContext, logger: logging.Logger
    ) -> float:
        """Make what `uri` names (None: everything), and return its size in bytes."""
        return 0

    def modify_context(
        self, uris: list[str], runtime_env: RuntimeEnv, context: RuntimeEnvContext, logger: logging.Logger
    ) -> None:
        """Change how workers start; called after `create`, also when everything was there."""

    def delete_uri(self, uri: str, logger: logging.Logger) -> float:
        """Remove what `uri` names, and return the bytes that became free. No worker uses it any more."""
        return 0
