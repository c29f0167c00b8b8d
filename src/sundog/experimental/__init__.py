"""Names that may still change: today only `tqdm_ray`."""

from __future__ import annotations
