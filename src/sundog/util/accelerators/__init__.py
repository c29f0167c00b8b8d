"""Names of accelerators for the `accelerator_type` option; see `accelerators`."""

from __future__ import annotations

from sundog.util.accelerators.accelerators import *  # noqa: F403
