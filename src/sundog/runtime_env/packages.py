"""What `pip` and `uv` of a runtime environment may say, and its full form, which is Ray's.

Owns the fields of both and their errors. Refuses: installing; that is `installs.py`. Runs in the submitting process, on
the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches

from sundog.plain import NamedTuple

PackageFields = dict[str, object]


class _Installer(NamedTuple):
    """The names of one installer's fields."""

    name: str
    check: str  # whether it looks for contradictions afterwards
    version: str  # of the installer; changes nothing about what is installed
    options: str
    default_options: tuple[str, ...] = ()


PIP = _Installer("pip", "pip_check", "pip_version", "pip_install_options")
UV = _Installer("uv", "uv_check", "uv_version", "uv_pip_install_options", ("--no-cache",))


def check_packages(installer: _Installer, value: object) -> PackageFields:
    """The full form of one of the two fields.

    Raises:
        ValueError: a field is unknown, there are no `packages`, or a file does not exist.
        TypeError: a field has the wrong type.

    >>> check_packages(PIP, ["six", "attrs", "six"])
    {'packages': ['six', 'attrs'], 'pip_check': False}
    """
    where = f"runtime_env[{installer.name!r}]"
    if isinstance(value, (str, list, tuple)):
        value = {"packages": value}
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} must be a list, a file or a dict, got {type(value).__name__}")
    known = ["packages", installer.check, installer.version, installer.options]
    for name in value:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{where} has no field {name!r}.{hint} The fields are: {', '.join(known)}.")
    if value and "packages" not in value:
        raise ValueError(f"{where} names no packages. Example: {{'packages': ['requests'], …}}")
    packages = value.get("packages", [])
    if isinstance(packages, str):
        packages = read_requirements(where, packages)
    # Twice the same would be a conflict to the installer.
    full: PackageFields = {"packages": list(dict.fromkeys(_strings(f"{where}['packages']", packages)))}
    full[installer.check] = _typed(where, installer.check, value.get(installer.check, False), bool)
    if installer.version in value:
        full[installer.version] = _typed(where, installer.version, value[installer.version], str)
    if installer.options in value or installer.default_options:
        options = value.get(installer.options, installer.default_options)
        full[installer.options] = _strings(f"{where}[{installer.options!r}]", options)
    return full


def read_requirements(where: str, path: str) -> list[str]:
    """The lines of a requirements file, without comments.

    Raises:
        ValueError: there is no such file.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{where} is {path!r}, which is not a requirements file")
    with open(path, encoding="utf-8") as file:
        rows = [line.split(" #")[0].strip() for line in file]
    return [row for row in rows if row and not row.startswith("#")]


def _typed(where: str, name: str, value: object, kind: type) -> object:
    if not isinstance(value, kind):
        raise TypeError(f"{where}[{name!r}] must be a {kind.__name__}, got {value!r}")
    return value


def _strings(where: str, value: object) -> list[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{where} must be a list of str, got {value!r}")
    return list(value)
