"""`JobConfig`: what holds for all that one program starts, given to `init(job_config=…)`.

Owns the values and their checks; `init` reads them. What only means something to another language is kept and has no
effect. Runs in any process that calls `init`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.config import user_environ

if TYPE_CHECKING:
    from sundog.logging_config import LoggingConfig
    from sundog.plain import JsonMapping, JsonObject

JOB_VARIABLE = "_SUNDOG_JOB"
_LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """The configuration of a program.

    Args:
        jvm_options: kept; there are no Java workers here.
        code_search_path: folders in which workers look for modules first.
        runtime_env: environment of the workers, unless `init` is given one.
        metadata: any names and values.
        ray_namespace: namespace of named actors, unless `init` is given one.
        default_actor_lifetime: "detached" or "non_detached", of actors that say neither.

    >>> JobConfig(ray_namespace="reports").ray_namespace
    'reports'
    """

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: JsonObject | None = None,
        _client_job: bool = False,
        metadata: JsonObject | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ) -> None:
        if not isinstance(code_search_path, (list, tuple, type(None))):
            raise TypeError(f"code_search_path must be a list of folders, not {code_search_path!r}.")
        self.jvm_options = list(jvm_options or [])
        self.code_search_path = list(code_search_path or [])
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace
        self.py_logging_config: LoggingConfig | None = None
        self._client_job = _client_job
        self._py_driver_sys_path = list(_py_driver_sys_path or [])
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    @classmethod
    def from_json(cls, job_config_json: JsonMapping) -> JobConfig:
        """A configuration from a dict, such as a JSON file has it."""
        given = job_config_json
        return cls(
            jvm_options=given.get("jvm_options"),
            code_search_path=given.get("code_search_path"),
            runtime_env=given.get("runtime_env"),
            metadata=given.get("metadata"),
            ray_namespace=given.get("ray_namespace"),
            _client_job=bool(given.get("client_job", False)),
            _py_driver_sys_path=given.get("py_driver_sys_path"),
        )

    def set_metadata(self, key: str, value: str) -> None:
        """Note one more name and value."""
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env: JsonObject | None, validate: bool = False) -> None:
        """Set the environment of the workers."""
        if validate:
            from sundog.runtime_env import RuntimeEnv

            runtime_env = RuntimeEnv(**(runtime_env or {}))
        self.runtime_env = runtime_env if runtime_env is not None else {}

    def set_py_logging_config(self, logging_config: LoggingConfig | None = None) -> None:
        """Set how the workers write what they log (a `LoggingConfig`)."""
        self.py_logging_config = logging_config

    def ensure_logging_config(self, logging_config: object = None) -> None:
        """The same, unless that is set already; a dict will do."""
        if logging_config is None or self.py_logging_config is not None:
            return
        from sundog.logging_config import LoggingConfig

        if isinstance(logging_config, dict):
            logging_config = LoggingConfig(**logging_config)
        if not isinstance(logging_config, LoggingConfig):
            raise TypeError(
                f"logging_config={logging_config!r} is neither a LoggingConfig nor a dict of its fields."
            )
        self.py_logging_config = logging_config

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Set the namespace of named actors."""
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Set what becomes of actors that are created without `lifetime=`.

        Raises:
            ValueError: neither "detached" nor "non_detached".
        """
        if default_actor_lifetime not in _LIFETIMES:
            raise ValueError(
                f"default_actor_lifetime must be one of {_LIFETIMES}, not {default_actor_lifetime!r}."
            )
        self.default_actor_lifetime = default_actor_lifetime


def submitted_job(address: str) -> JsonObject:
    """What the head process says of the submitted job that this program is the entrypoint of; {} if it is none.

    Args:
        address: the session that this program joins. A job's entrypoint may also start or join another one.
    """
    environ = user_environ()
    text = environ.get(JOB_VARIABLE)
    if not text or address != environ.get("SUNDOG_ADDRESS"):
        return {}
    import json  # only the entrypoint of a job comes here

    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
