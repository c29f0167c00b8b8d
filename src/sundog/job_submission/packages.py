"""A folder as a zip file, for a head process that does not see this machine's files.

Owns the form of the file and its name, which tells its content. What is left out is what `runtime_env` leaves out.
Runs in the client's process.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Sequence

from sundog.runtime_env.snapshot import store

_FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have: the same content is the same file


def pack(path: str, excludes: Sequence[str], inside: str = "") -> tuple[str, bytes]:
    """The name and the content of a zip file with all that is in a folder.

    Args:
        inside: a folder within the zip file that all of it is put in: a module's own name.

    Raises:
        RuntimeEnvSetupError: the folder is too large, or cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="sundog-package-") as temporary:
        copied = store(os.path.abspath(path), temporary, tuple(excludes), inside)
        body = _zip(copied)
    return f"_sundog_pkg_{hashlib.sha256(body).hexdigest()[:32]}.zip", body


def _zip(folder: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for base, names, files in os.walk(folder):
            names.sort()
            for name in sorted(files):
                full = os.path.join(base, name)
                entry = zipfile.ZipInfo(os.path.relpath(full, folder), _FIRST_DATE)
                entry.external_attr = (os.stat(full).st_mode & 0o777) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                with open(full, "rb") as source:
                    file.writestr(entry, source.read())
    return buffer.getvalue()
