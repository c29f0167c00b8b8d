"""The logical resources of a node of this machine: what the program gave, and what the machine has.

Owns the defaults, the checks of amounts and names, and the variables by which a launcher describes a machine
(`RAY_OVERRIDE_RESOURCES`, `RAY_OVERRIDE_LABELS`). Refuses: handing resources out; the lease machine does. Runs in the
process that starts a node, on its calling thread.
"""

from __future__ import annotations

import os
from typing import Any

from sundog import accelerator_kinds, machine
from sundog import config as config_module
from sundog.config import Config
from sundog.store import limits


def node_resources(
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    object_store_memory: int | None,
    config: Config,
) -> dict[str, float]:
    """The logical resources of this machine.

    Raises:
        ValueError: a negative amount, or a built-in name among the custom ones.
    """
    gpus = machine.gpus(num_gpus, config_module.user_environ().get("CUDA_VISIBLE_DEVICES"))
    total = machine.limit_bytes()
    store = float(object_store_memory or limits.store_bytes(total, config))
    out: dict[str, float] = {
        "CPU": float(len(os.sched_getaffinity(0)) if num_cpus is None else num_cpus),
        "memory": float(int(total * 0.7)),
        "object_store_memory": store,
        "node:127.0.0.1": 1.0,
        "node:__internal_head__": 1.0,
    }
    if gpus:
        out["GPU"] = float(gpus)
    for name, amount in (resources or {}).items():
        if name in ("CPU", "GPU"):
            raise ValueError(f"Give {name} through num_{name.lower()}s=, not in resources=.")
        if not isinstance(name, str) or not name:
            raise TypeError(f"resources: {name!r} is not a name; the name of a resource is a string.")
        # NaN fails this comparison too.
        if not isinstance(amount, (int, float)) or not amount < float("inf"):
            raise ValueError(f"resources[{name!r}] must be a number, not {amount!r}.")
        out[name] = float(amount)
    out |= accelerator_kinds.models(out) | from_variable("RAY_OVERRIDE_RESOURCES", float)
    from_variable("RAY_OVERRIDE_LABELS", str)  # raises for a wrong value before anything is started
    out["memory"] = float(int(out["memory"]))
    for name, amount in out.items():
        if amount < 0:
            raise ValueError(f"A machine cannot have {amount} {name}: an amount must be zero or more.")
    return {name: amount for name, amount in out.items() if amount > 0 or name == "CPU"}


def from_variable(variable: str, kind: type) -> dict[str, Any]:
    """What a variable says of this machine, as JSON. A launcher sets it; it is stronger than the program's arguments.

    Raises:
        ValueError: the variable is not JSON of such values by name.
    """
    text = config_module.user_environ().get(variable)
    if not text:
        return {}
    import json

    try:
        return {str(name): kind(value) for name, value in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"The variable {variable} must be a JSON object of names and values: {error}."
        ) from None
