"""Runs a program that says `import ray`, unchanged, on sundog.

Owns the switch (`install`, `uninstall`, `installed`) that puts `aliases.RayFinder` first on
`sys.meta_path`, so that in this process `ray.x.y` *is* `sundog.x.y`: one module object under two names,
never a second copy whose classes would not compare equal. Refuses to work beside a real Ray that this
process has imported already, and refuses Ray's libraries that sundog does not have (`ray.data`,
`ray.train`, …) by name.

Runs in drivers (`sundog run` calls `install` before the script) and in their workers (the worker's runtime
calls it when the driver had), in whichever thread imports. Imports nothing of sundog until a program asks
for it.
"""

import sys

from sundog.compat.aliases import RayFinder

__all__ = ["install", "installed", "uninstall"]

_finder = RayFinder()


def installed() -> bool:
    """Whether `import ray` gives sundog in this process.

    >>> installed()
    False
    """
    return _finder in sys.meta_path


def install() -> None:
    """Make `import ray` (and every `ray.…` module that sundog has) give sundog's modules. Idempotent.

    Raises:
        ImportError: another `ray` was imported in this process before: two runtimes under one name cannot be
            told apart, so the caller must choose first.
    """
    if installed():
        return
    present = sys.modules.get("ray")
    if present is not None and not _is_ours(present.__name__):
        raise ImportError(
            f"cannot stand in for Ray: this process already imported it from "
            f"{getattr(present, '__file__', None) or 'an unknown place'}. "
            "Call sundog.compat.install() before anything imports ray, or start the program with: "
            "sundog run script.py",
            name="ray",
            path=getattr(present, "__file__", None),
        )
    # First, not last: an installed Ray must not win, and the path finder would load sundog's files a second
    # time under Ray's name (`ray.__path__` is sundog's).
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undo `install`: the name `ray` is free again. Modules imported meanwhile stay usable. Idempotent."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    for name in list(sys.modules):
        # While it was installed, sundog provided every module of that name.
        if name == "ray" or name.startswith("ray."):
            del sys.modules[name]


def _is_ours(name: str) -> bool:
    # An alias keeps its own name: sys.modules["ray.util"].__name__ == "sundog.util".
    return name == "sundog" or name.startswith("sundog.")
