"""What `init()` takes: wrong names and values are refused with the right ones.

Owns the checks alone; what the options do is decided in `api.py`. Any process that calls `init()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundog.signatures import Signature


def check(
    init: Callable[..., Any],
    other: dict[str, Any],
    runtime_env: Any,
    namespace: Any,
    num_cpus: Any,
    num_gpus: Any,
    resources: Any,
    labels: Any,
    store: Any,
) -> None:
    """Refuse what `init` cannot mean, before anything is started.

    Raises:
        TypeError: an option has another name, or is another kind of thing.
        ValueError: an option has no such value.
    """
    for name in other:
        if not name.startswith("_"):
            from difflib import get_close_matches

            known = [name for name, _, _ in Signature.of(init).parameters or () if name != "other"]
            near = get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"init() has no option {name!r}.{hint} Its options: {', '.join(known)}.")
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise ValueError(f"namespace must be a non-empty string, not {namespace!r}.")
    for name, amount in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        if amount is not None and not _is_amount(amount):
            raise ValueError(f"{name} must be a number that is not negative, not {amount!r}.")
    if resources is not None and not isinstance(resources, dict):
        raise TypeError(f"resources must be a dict of name to amount, not {type(resources).__name__}.")
    if labels is not None and not (
        isinstance(labels, dict) and all(isinstance(each, str) for each in (*labels, *labels.values()))
    ):
        raise TypeError(f"labels must be a dict of strings to strings, not {labels!r}.")
    if runtime_env is not None and not isinstance(runtime_env, dict):
        raise TypeError(f"runtime_env must be a dict or RuntimeEnv, not {type(runtime_env).__name__}.")
    if store is not None and not (_is_amount(store) and store > 0):
        raise ValueError(f"object_store_memory must be a positive number of bytes, not {store!r}.")


def check_logging(form: Any, config: Any) -> None:
    """The same for what it is told of logging."""
    if form is not None and not isinstance(form, str):
        raise TypeError(f"logging_format must be a format of the module logging, not {form!r}.")
    if config is not None:
        from sundog.logging_config import LoggingConfig

        if not isinstance(config, LoggingConfig):
            raise TypeError(f"logging_config must be a sundog.LoggingConfig, not {type(config).__name__}.")


def _is_amount(value: Any) -> bool:
    # NaN compares with nothing, so it is not in any range either.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
