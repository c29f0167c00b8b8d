"""Whether this Python, this Ray and this cluster fit together: each misfit is one sentence.

Owns the import of Ray and the checks around it. Runs in drivers, when they join.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

RAY = "2.60"
"""The release of Ray whose interfaces this engine was made for and is tested with."""


def import_ray() -> ModuleType:
    """Ray itself.

    Raises:
        ImportError: it is not installed, is another release, or `import ray` gives sundog here.
    """
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise ImportError(
            f"Engine 'ray' needs Ray, and {sys.executable} has none ({error}). Install the release of the cluster: "
            f"pip install 'ray[default]=={RAY}.*'; engine 'local' needs none.",
            name="ray",
        ) from None
    if not hasattr(ray, "_raylet"):
        raise ImportError(
            "`import ray` gives sundog in this process, so Ray itself cannot be reached beside it. Start the program "
            "with: sundog run --engine ray script.py",
            name="ray",
        )
    check_release(str(getattr(ray, "__version__", "?")))
    return ray


def check_release(version: str) -> None:
    """Refuse a Ray that this engine was not made for.

    Raises:
        ImportError: it is another release.

    >>> check_release("2.60.1")
    """
    if version.split(".")[:2] != RAY.split("."):
        raise ImportError(
            f"Engine 'ray' works with Ray {RAY}, and this Python has Ray {version}: "
            f"pip install 'ray[default]=={RAY}.*', on the cluster too.",
            name="ray",
        )


def explain(error: Exception, address: object) -> Exception:
    """A refusal of Ray's to connect, in one sentence where its cause is known; else the error as it is."""
    text = str(error)
    if isinstance(error, RuntimeError) and "Python" in text and "ersion" in text:
        here = ".".join(str(part) for part in sys.version_info[:3])
        return RuntimeError(
            f"The Ray cluster at {address} and this program must have the same Ray and the same Python; this program "
            f"has Ray {_here()} and Python {here}. Ray says: {_first_lines(text)}"
        )
    if isinstance(error, ConnectionError):
        return ConnectionError(
            f"There is no Ray cluster at {address or 'auto'}: {_first_lines(text)} Start one with: ray start --head"
        )
    return error


def _here() -> str:
    ray = sys.modules["ray"]
    return str(ray.__version__)


def _first_lines(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines()[:6])[:500]
