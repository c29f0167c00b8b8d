"""What the environment says of plug-ins for `runtime_env`: which classes, and how much each may keep.

Owns the names of these variables. Runs in the submitting process and in workers.
"""

from __future__ import annotations

from collections.abc import Mapping

from sundog.config import PREFIXES, user_environ

CACHE_GB = 10.0


def classes(environ: Mapping[str, str] | None = None) -> str:
    """The classes of the user's plug-ins, as JSON; "" for none.

    >>> classes({"RAY_RUNTIME_ENV_PLUGINS": '[{"class": "site.Plugin"}]'})
    '[{"class": "site.Plugin"}]'
    """
    return _first("RUNTIME_ENV_PLUGINS", environ)


def cache_gb(plugin: str, environ: Mapping[str, str] | None = None) -> float:
    """The gigabytes that one plug-in's resources may take before unused ones are removed.

    Raises:
        ValueError: the variable is no number.

    >>> cache_gb("data", {"RAY_RUNTIME_ENV_DATA_CACHE_SIZE_GB": "0.5"}), cache_gb("data", {})
    (0.5, 10.0)
    """
    name = f"RUNTIME_ENV_{plugin.upper()}_CACHE_SIZE_GB"
    text = _first(name, environ)
    try:
        return float(text) if text else CACHE_GB
    except ValueError:
        raise ValueError(f"RAY_{name} must be a number of gigabytes, got {text!r}") from None


def _first(name: str, environ: Mapping[str, str] | None) -> str:
    env = user_environ() if environ is None else environ
    return next(filter(None, (env.get(prefix + name) for prefix in PREFIXES)), "")
