"""Which environment variables look like secrets: they stay out of what is written to disk or sent to a colleague.

Owns the rule. The rule goes by names, and by passwords in URLs; it cannot know all. Pure; any process, any thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.plain import JsonObject

HIDDEN = "(left out)"
_NAME = re.compile(
    r"(key|token|secret|passw|passphrase|credential|auth|cookie|private|signature|dsn|connection_string)",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^/\s:@]+:[^/\s@]+@")


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret."""
    return _NAME.search(name) is not None or _URL_PASSWORD.search(value) is not None


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without variables that look like secrets, by name or by a password in a URL.

    >>> without_secrets({"HOME": "/root", "AWS_SECRET_ACCESS_KEY": "x", "DB": "postgres://me:pw@host/db"})
    {'HOME': '/root'}
    """
    return {name: value for name, value in environ.items() if not looks_secret(name, value)}


def for_records(runtime_env: JsonObject) -> JsonObject:
    """A runtime_env as it is recorded: the names of all its variables, the values of those that are no secrets.

    >>> for_records({"pip": ["six"], "env_vars": {"MODE": "a", "API_KEY": "x"}})
    {'pip': ['six'], 'env_vars': {'MODE': 'a', 'API_KEY': '(left out)'}}
    """
    variables = runtime_env.get("env_vars")
    if not isinstance(variables, dict):
        return runtime_env
    shown = {
        name: HIDDEN if looks_secret(str(name), str(value)) else value for name, value in variables.items()
    }
    return {**runtime_env, "env_vars": shown}
