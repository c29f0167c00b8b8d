"""Every knob of sundog, and the only place in the package that reads ``os.environ``.

Owns: the list of settings with their types, defaults and meaning; the rules by which a value is chosen; the
environment that child processes inherit. Refuses: guessing. A value that does not parse, or a setting that neither
sundog nor Ray knows, is an error that names the variable, never a silent default.

Where a value comes from, strongest first::

    init(_system_config={"spin_us": 0})      explicit, in the program
    SUNDOG_spin_us=0                          our own prefix
    RAY_spin_us=0                             so that an environment made for Ray keeps working
    the default written below

The two names with a prefix are also read in capitals (``SUNDOG_SPIN_US``, ``RAY_ADDRESS``); the exact
spelling wins over the capitals. A setting that only Ray knows is accepted and takes no effect; a few of Ray's mean
one of ours under another name (`OTHER_NAMES`). Runs in every process, on whichever thread asks; its only state is
the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sundog.plain import NamedTuple, Value, field, fields, plain

__all__ = [
    "Config",
    "Setting",
    "default_temp_dir",
    "describe",
    "engine_asked",
    "load",
    "mistyped",
    "set_child_environ",
    "user_environ",
    "without_effect",
]

PREFIXES = ("SUNDOG_", "RAY_")

# Ray's name of a setting that has another name here, and the factor for its value.
OTHER_NAMES: dict[str, tuple[str, float]] = {
    "idle_worker_killing_time_threshold_ms": ("idle_worker_s", 1e-3),
    "max_direct_call_object_size": ("inline_max_bytes", 1),
    "worker_maximum_startup_concurrency": ("starting_workers_max", 1),
}

live_environ: Mapping[str, str] = os.environ  # to look up some variables: a copy decodes all of them


def _setting(default: Value, doc: str, *, low: float | None = None, high: float | None = None) -> Value:
    """Declare one field: its default, what it does, and the range that makes sense."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high})


@plain(frozen=True, kw_only=True)
class Config:
    """The settings of one session. Immutable: the node hands the same values to every worker.

    >>> Config().inline_max_bytes
    102400
    """

    engine: str = _setting("local", 'Where programs run: "local" is this machine, "ray" is a Ray cluster.')
    ship_to_nodes: bool = _setting(
        True, "Engine ray: send sundog along to a cluster that was there before; off: its nodes have it."
    )
    push_interval_s: float = _setting(
        1.0, "Engine ray: seconds between two pushes of a worker's records to the driver's node.", low=0.05
    )
    address: str = _setting("", "Session that init() joins when it is given no address; empty: see init().")
    namespace: str = _setting("", "Namespace of named actors when init() is given none; empty is anonymous.")
    temp_dir: str = _setting(
        "", "Directory of session folders; empty: sundog-<user id> below RAY_TMPDIR, TMPDIR or /tmp."
    )
    shm_dir: str = _setting(
        "/dev/shm", "Directory of the shared-memory segments; must be a tmpfs to be fast."
    )

    spin_us: int = _setting(
        150, "Microseconds a blocked get spins before it sleeps; 0 never spins.", low=0, high=10_000
    )
    batch_max: int = _setting(64, "Most tasks that travel in one packet.", low=1, high=65_536)
    prefetch_ms: float = _setting(
        2.0,
        "Milliseconds of estimated work in a packet, or up to twenty times as much while many tasks wait. A few "
        "packets of short tasks may wait at a worker.",
        low=0,
    )
    inline_max_bytes: int = _setting(
        100 * 1024, "Largest result that travels in the reply; larger ones go to shared memory.", low=0
    )
    packet_max_bytes: int = _setting(
        120 * 1024, "Largest packet on a channel, if the kernel's socket buffer allows it.", low=4096
    )

    idle_worker_s: float = _setting(60.0, "Seconds after which an idle worker process is ended.", low=0)
    idle_lease_ms: float = _setting(20.0, "Milliseconds an owner keeps a lease it has no work for.", low=0)
    starting_workers_max: int = _setting(
        0, "Most worker processes being started at a time; 0: twice the number of cores.", low=0
    )
    max_worker_processes: int = _setting(
        0, "Most worker processes at a time on a node; 0: the node decides.", low=0
    )
    reload_changed_modules: bool = _setting(
        True, "Replace workers that hold an older version of a module edited on disk; off: only warn."
    )
    learn_imports: bool = _setting(
        True,
        "Load packages that many workers import only once, in the process that the workers are forked from, if that is "
        "safe; off: each worker loads them.",
    )
    actor_graceful_shutdown_timeout_ms: int = _setting(
        30_000,
        "Milliseconds for __ray_shutdown__(), __del__ and atexit handlers at an actor's end; then it is killed.",
        low=1,
    )
    max_num_generator_returns: int = _setting(
        100_000_000, "Most items that one generator may yield; one more fails its task.", low=1
    )
    timeout_grace_s: float = _setting(
        2.0, "Seconds that a task has to stop once its timeout_s is over; then its worker is killed.", low=0
    )
    enable_deadlock_check: bool = _setting(True, "Raise in a get that takes part in a cycle of waits.")
    deadlock_check_s: float = _setting(
        1.0, "Seconds a get without a timeout is blocked before the search for deadlocks begins.", low=0.01
    )

    memory_monitor_refresh_ms: int = _setting(
        250, "Milliseconds between looks at the machine's memory; 0 switches the monitor off.", low=0
    )
    memory_usage_threshold: float = _setting(
        0.95, "Share of memory in use above which the monitor stops a worker.", low=0.0, high=1.0
    )
    min_memory_free_bytes: int = _setting(
        -1,
        "On large machines: the monitor never acts while more than this many bytes are free, whatever "
        "memory_usage_threshold is; -1: only the threshold counts.",
        low=-1,
    )
    task_oom_retries: int = _setting(
        -1,
        "How often a task that was ended because memory ran out is tried again while others run; -1: no limit.",
        low=-1,
    )
    memory_admission: bool = _setting(
        True, "When memory is short, start only as many of a function as its past runs say will fit."
    )
    memory_summary_s: float = _setting(
        60.0,
        "Least seconds between two summaries, in the driver, of workers that were ended because memory ran out.",
        low=0,
    )
    enforce_memory_by_cgroup: bool = _setting(
        True,
        "Put tasks with enforce_memory=True into a control group where one can be made; off: only watch their memory.",
    )
    worker_oom_score_adjustment: int = _setting(
        1000,
        "How much sooner the kernel's out-of-memory killer picks a worker than other processes; 0: no difference.",
        low=0,
        high=1000,
    )
    worker_niceness: int = _setting(
        0, "Niceness of worker processes, 0 to 19; 0: that of the driver. Ray has 15.", low=0, high=19
    )
    scheduler_spread_threshold: float = _setting(0.5, "Share to fill of a node before the next.", low=0)
    preload_python_modules: str = _setting("", "Modules, with commas, that each worker imports first.")
    maximum_gcs_destroyed_actor_cached_count: int = _setting(
        2_000, "How many ended actors the session remembers, for errors and lists.", low=0
    )
    object_store_fraction: float = _setting(
        0.3, "Share of memory that the object store may take when no size is given.", low=0.0, high=1.0
    )

    lineage_pinning_enabled: bool = _setting(
        True, "Whether lost results are computed again by running their tasks once more."
    )
    max_lineage_bytes: int = _setting(
        1 << 30,
        "Bytes of arguments each process keeps to compute lost results again; beyond that, the oldest are dropped.",
        low=0,
    )
    object_spilling_threshold: float = _setting(
        0.8,
        "Once the store was full, it is kept below this share of its limit by spilling ahead.",
        low=0.0,
        high=1.0,
    )
    automatic_object_spilling_enabled: bool = _setting(
        True, "Move the objects used longest ago to disk when the store is full."
    )
    store_fallback_to_disk: bool = _setting(
        True, "Write a new object to disk when nothing can make room for it; off: ObjectStoreFullError."
    )
    object_spilling_directory: str = _setting(
        "", "Folder, or URL for fsspec, that objects are spilled to; empty: the session's own folder."
    )
    object_spilling_config: str = _setting(
        "", "Where objects are spilled to, as JSON in Ray's form; several places are used in turn."
    )
    min_spilling_size: int = _setting(
        32 << 20, "Bytes up to which small objects are spilled together in one file.", low=0
    )
    max_fused_object_count: int = _setting(2000, "Most objects that are spilled to one file.", low=1)
    max_io_workers: int = _setting(2, "Threads of the node that spill and restore objects.", low=1, high=64)
    local_fs_capacity_threshold: float = _setting(
        0.95, "Share of the spill disk in use above which the driver is warned once.", low=0.0, high=1.0
    )
    verbose_spill_logs: int = _setting(
        2 << 30,
        "Tell the driver when spilling begins, at so many bytes, and each time that they double; 0: never.",
        low=0,
    )

    record_enabled: bool = _setting(True, "Record task states, gets, puts and waits.")
    record_task_actor_creation_sites: bool = _setting(
        False,
        "Accepted without effect, as call sites are always recorded.",
    )
    record_ring_events: int = _setting(
        65_536, "Events each process keeps in its ring before the oldest are overwritten.", low=64
    )
    record_events_max: int = _setting(
        16_000_000, "Most events that a session keeps, 64 bytes each; the oldest are dropped.", low=512
    )
    record_age_s: float = _setting(
        0.0, "Events that are older than this are dropped; 0: only their number counts.", low=0.0
    )
    dead_process_files: int = _setting(
        1000,
        "How many ended processes keep their logs in a running session; as many failed ones in addition.",
        low=0,
    )
    dead_process_bytes: int = _setting(512 << 20, "Bytes that these logs may take; old ones go.", low=0)
    session_keep: int = _setting(
        10, "Folders of ended sessions (logs, records) that the next session leaves in place.", low=0
    )
    packed_max_bytes: int = _setting(16 << 30, "Most bytes that a packed session may unpack to.", low=0)
    log_rotation_max_bytes: int = _setting(
        512 << 20, "Bytes after which a worker begins a new log file, for each of its two.", low=1024
    )
    log_rotation_backup_count: int = _setting(
        5, "Older parts of a worker's log that stay beside the one it writes.", low=0
    )
    runtime_env_ignore_gitignore: bool = _setting(
        False,
        "Copy what a `.gitignore` leaves out, too, when a folder of a runtime_env is copied; a `.rayignore` counts.",
    )
    enable_auto_connect: bool = _setting(
        True, "Call `init()` at the first task, actor or put of a program that did not call it."
    )
    include_dashboard: bool = _setting(
        True, "Let `sundog start --head` start the head process too: dashboard and jobs."
    )
    job_weight: float = _setting(
        1.0,
        "Weight of this program when several share the CPUs: with weight 2 it gets twice as many as with 1.",
        low=0.01,
    )
    job_cpus: float = _setting(
        0.0, "Most CPUs that tasks and actors of this program may use at a time; 0: no limit.", low=0
    )
    job_memory: int = _setting(
        0,
        "Most bytes that this program, what it starts and its workers may hold together; 0: no limit.",
        low=0,
    )
    job_object_store: int = _setting(
        0,
        "Most bytes that objects of this program may take of the store; beyond, its own are spilled. 0: no limit.",
        low=0,
    )
    tracing_startup_hook: str = _setting(
        "", "Function (`module:function`) that sets up OpenTelemetry in each process; empty traces nothing."
    )
    metrics_export_port: int = _setting(
        0,
        "Port on 127.0.0.1 for Prometheus, of the head process or, without one, of the session (see metrics_port); "
        "0: no fixed port.",
        low=0,
        high=65_535,
    )
    gcs_server_request_timeout_seconds: int = _setting(
        60,
        "Seconds for which a program waits for the node's answer about names, actors, nodes, resources and placement "
        "groups; then GetTimeoutError. 0: no limit.",
        low=0,
    )
    testing_asio_delay_us: str = _setting(
        "",
        "For tests of a slow node: `Name=min:max,…`, the microseconds by which these answers of the node are late.",
    )
    metrics_port: bool = _setting(
        True,
        "Give a session a port on 127.0.0.1 for its figures when a program asks for it (`nodes()`, "
        "`init().address_info`). Only programs of the same user and of root are answered.",
    )
    metrics_port_for_all: bool = _setting(
        False,
        "Answer every user of the machine on that port: names of functions, processes, memory, user metrics.",
    )
    max_running_jobs: int = _setting(
        0, "Most submitted jobs that run at a time; the others wait in turn. 0: no limit.", low=0
    )
    log_to_driver: bool = _setting(True, "Show what workers print in the driver's terminal.")
    ignore_unhandled_errors: bool = _setting(
        False, "Print no errors of tasks whose refs are dropped before a get() raised the error."
    )
    full_tracebacks: bool = _setting(
        False, "Show sundog's own frames in the traceback of a refused call that ends the program."
    )
    dedup_logs: bool = _setting(
        True, "Fold lines from several workers that differ only in numbers into one line with a count."
    )
    dedup_logs_agg_window_s: float = _setting(
        5.0, "Seconds for which repeated lines are counted before the count is shown.", low=0
    )
    dedup_logs_allow_regex: str = _setting("", "Regular expression: lines that match are never folded.")
    dedup_logs_skip_regex: str = _setting(
        "", "Regular expression: lines of workers that match are not shown in the driver."
    )
    dashboard_port: int = _setting(
        8265, "First port tried for the dashboard; 0: any free port.", low=0, high=65_535
    )
    capsule_on_failure: bool = _setting(
        True, "Keep what is needed to run a failed task again, for `sundog replay`."
    )
    capsule_max_bytes: int = _setting(
        64 << 20, "Bytes of arguments that a capsule holds; larger ones stay where they are.", low=0
    )
    capsule_quota_bytes: int = _setting(
        512 << 20, "Bytes of capsules that a session keeps; the oldest go first.", low=0
    )
    capsule_keep: int = _setting(200, "Capsules that a session keeps; the oldest go first.", low=0)
    debugger: str = _setting("pdb", "What a breakpoint() in a task waits for: pdb, or debugpy for VS Code.")
    debug_post_mortem: bool = _setting(
        False, "Pause every task where it raises an exception, for `sundog debug`."
    )
    allow_out_of_band_object_ref_serialization: bool = _setting(
        True,
        "Whether a ref may be pickled by hand, which keeps its object until shutdown; off: an error.",
    )
    experimental_noset_cuda_visible_devices: bool = _setting(
        False, "Leave CUDA_VISIBLE_DEVICES of workers alone, whatever GPUs they get."
    )
    accel_env_var_override_on_zero: bool = _setting(
        False, "Empty CUDA_VISIBLE_DEVICES in workers that get no GPU, instead of leaving it alone."
    )


class Setting(NamedTuple):
    """One row of `describe`: what a reader of the documentation wants to know of a setting."""

    name: str
    type: str
    default: object
    doc: str


def describe() -> list[Setting]:
    """List every setting, in the order of declaration, so that documentation can be made and tested from it.

    >>> [s.default for s in describe() if s.name == "batch_max"]
    [64]
    """
    return [Setting(f.name, str(f.type), f.default, f.metadata["doc"]) for f in fields(Config)]


def load(
    system_config: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None
) -> Config:
    """Choose a value for every setting.

    Args:
        system_config: what the program passed as ``init(_system_config=...)``.
        environ: the environment to read; the process's own when left out.

    Raises:
        ValueError: a value does not parse or is out of range (the message names the variable or key), or
            `system_config` has a key that is no setting.

    >>> load({"batch_max": 8}, {"SUNDOG_spin_us": "0", "RAY_spin_us": "9"}).spin_us
    0
    """
    env = os.environ if environ is None else environ
    given = _in_our_names(system_config or {}, env)
    chosen: dict[str, object] = {}
    for f in fields(Config):
        if f.name in given:
            chosen[f.name] = _parse(f"_system_config[{f.name!r}]", given[f.name], str(f.type), f.metadata)
            continue
        for variable in _variables(f.name):
            # An empty variable is how a shell unsets one for a single command, so it counts as absent.
            if text := env.get(variable, ""):
                chosen[f.name] = _parse(variable, text, str(f.type), f.metadata)
                break
    return Config(**chosen)  # type: ignore[arg-type]  # each value was parsed to its field's type just above


def _in_our_names(system_config: Mapping[str, object], env: Mapping[str, str]) -> dict[str, object]:
    """What the program set, by the names of our fields; Ray's other names for them count too, wherever they stand.

    Raises:
        ValueError: a name is no setting, neither ours nor Ray's.
    """
    known = [f.name for f in fields(Config)]
    given = {key: value for key, value in system_config.items() if key in known}
    if len(given) != len(system_config):
        from sundog.ray_settings import NAMES

        for key in system_config:
            if key not in given and key not in NAMES:
                raise ValueError(_unknown_key(key, [*known, *NAMES]))
    for theirs, (ours, factor) in OTHER_NAMES.items():
        source, value = f"_system_config[{theirs!r}]", system_config.get(theirs)
        if value is None and not any(env.get(each) for each in _variables(ours)):
            source, value = f"RAY_{theirs}", env.get(f"RAY_{theirs}") or None
        if value is not None and ours not in given:
            kind, metadata = next((str(f.type), f.metadata) for f in fields(Config) if f.name == ours)
            given[ours] = _parse(source, value, kind, metadata, factor)
    return given


def without_effect(
    system_config: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None
) -> list[str]:
    """The settings of Ray that are set here and mean nothing to sundog, in `_system_config` or the environment.

    >>> without_effect({"gcs_rpc_server_reconnect_timeout_s": 5, "spin_us": 0}, {})
    ['gcs_rpc_server_reconnect_timeout_s']
    """
    from sundog.ray_settings import NAMES

    env = os.environ if environ is None else environ
    ours = {f.name for f in fields(Config)} | OTHER_NAMES.keys()
    found = [key for key in system_config or {} if key not in ours]
    return found + [f"RAY_{name}" for name in sorted(NAMES - ours) if f"RAY_{name}" in env]


def mistyped(environ: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Variables with our prefix that set nothing, each with the nearest that would ("" if none is near).

    >>> mistyped({"SUNDOG_spinus": "0", "SUNDOG_SPIN_US": "0"})
    [('SUNDOG_spinus', 'SUNDOG_spin_us')]
    """
    env = os.environ if environ is None else environ
    prefix = PREFIXES[0]
    present = [name for name in env if name.startswith(prefix)]
    if not present:
        return []
    known = [f.name for f in fields(Config)]
    right = {prefix + spelling for name in known for spelling in (name, name.upper())}
    plugins = f"{prefix}RUNTIME_ENV_"  # read by runtime_env/plugin_settings.py
    wrong = [name for name in present if name not in right and not name.startswith(plugins)]
    if not wrong:
        return []
    from difflib import get_close_matches

    near = [get_close_matches(name.removeprefix(prefix).lower(), known, n=1) for name in wrong]
    return [(name, prefix + close[0] if close else "") for name, close in zip(wrong, near)]


def engine_asked(environ: Mapping[str, str] | None = None) -> str:
    """The engine that the environment names, without reading all other settings.

    >>> engine_asked({"SUNDOG_ENGINE": "ray"}), engine_asked({"SUNDOG_engine": "ray"}), engine_asked({})
    ('ray', 'ray', 'local')
    """
    env = os.environ if environ is None else environ
    return env.get("SUNDOG_ENGINE") or env.get("SUNDOG_engine") or "local"


def default_temp_dir(environ: Mapping[str, str] | None = None) -> str:
    """Where this user's sessions are when the setting `temp_dir` is empty: no two users share it.

    Below RAY_TMPDIR (Ray's name; made if need be), TMPDIR or /tmp. A folder of another user does not count.

    >>> default_temp_dir({"TMPDIR": "/"}) == f"/sundog-{os.geteuid()}"
    True
    """
    found, uid, base = os.environ if environ is None else environ, os.geteuid(), "/tmp"
    for name in ("TMPDIR", "RAY_TMPDIR"):
        path = found.get(name)
        try:
            if path and os.stat(path).st_uid in (0, uid) and os.path.isdir(path):
                base = path
        except FileNotFoundError:
            base = path if path and name == "RAY_TMPDIR" else base  # this folder will be created
        except OSError:
            continue
    return os.path.join(os.path.abspath(base), f"sundog-{uid}")


def user_environ() -> dict[str, str]:
    """A copy of this process's environment, for a child about to be started."""
    return dict(os.environ)


def set_child_environ(updates: Mapping[str, str | None]) -> None:
    """Change this process's environment, and so that of all its later children; None removes a variable.

    Workers call it for ``CUDA_VISIBLE_DEVICES``, thread counts and ``runtime_env`` variables.
    """
    for name, value in updates.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _variables(name: str) -> list[str]:
    """The environment variables that may set `name`, strongest first."""
    return [prefix + spelling for prefix in PREFIXES for spelling in dict.fromkeys((name, name.upper()))]


def _unknown_key(key: object, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(str(key), known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    own = ", ".join(sorted(f.name for f in fields(Config)))
    return (
        f"_system_config has no setting {key!r}.{hint} Neither sundog nor Ray knows it. The settings of sundog are: "
        f"{own}."
    )


def _parse(
    source: str, value: object, type_name: str, metadata: Mapping[str, object], factor: float = 1
) -> object:
    """The value of a setting that was given one."""
    from sundog import setting_values  # most programs give none

    if factor != 1:
        return setting_values.to_float(value) * factor
    return setting_values.parse(source, value, type_name, metadata)


if __name__ == "__main__":
    for each in describe():
        print(f"SUNDOG_{each.name} ({each.type}, default {each.default!r}): {each.doc}")
