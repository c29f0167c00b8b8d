"""`RuntimeEnv` and `RuntimeEnvConfig`, under the path by which programs written for Ray import them."""

from __future__ import annotations

from sundog.runtime_env.fields import RuntimeEnv, RuntimeEnvConfig

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
