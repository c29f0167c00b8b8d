"""The head process of a session, seen from outside: its address, its token, and the file that tells both.

::

    sundog start ─┐ binds the port, makes the token ─► <session>/head.json (0600)
    init()       ─┴─ hands the listening socket to the node ─► node ── starts, and starts again ──► head process

Owns the choice of the port, the token, and `head.json`. The process that starts a session binds the port: it can print
the address at once, and a head process that was killed loses no connection, for the node holds the socket. Refuses to
start what is not installed. Runs in the process that starts or asks a session; a plain `init()` does not import it.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import secrets
import socket
from importlib.util import find_spec

from sundog import config, trust
from sundog.plain import NamedTuple, as_dict, plain

FILE = "head.json"
DEFAULT_HOST = "127.0.0.1"
NEEDED = ("starlette", "uvicorn", "websockets")
INSTALL = "pip install 'sundog[default]'"
_PORTS_TRIED = 32
_BACKLOG = 512
_TOKEN_BYTES = 24
_TOKEN_MIN = 16


class NotInstalled(ImportError, ValueError):
    """A package of the extra `sundog[default]` is missing. The text says which, and what to type."""


class PortTaken(OSError):
    """The port that was asked for cannot be used. The text is for the user."""


@plain(frozen=True)
class HeadInfo:
    """Where the head process of a session answers, and what it wants to be shown."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """Its address, for clients. Without the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{DEFAULT_HOST if host in ('0.0.0.0', '[::]') else host}:{self.port}"

    @property
    def page(self) -> str:
        """The address to open in a browser; the token in it becomes a cookie."""
        return f"{self.url}/?token={self.token}"


class Head(NamedTuple):
    """A head process to be: its address, and the socket on which it will listen. The process that made it closes the
    socket."""

    info: HeadInfo
    listener: socket.socket


def check_installed() -> None:
    """Raises: NotInstalled: the head process cannot run in this Python."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise NotInstalled(
            f"The dashboard and jobs need packages that are not installed: {', '.join(missing)}. Install: {INSTALL}"
        )


def make_head(host: str | None, port: int | None, first_port: int | None = None) -> Head:
    """Bind the port of a head process, and make its token.

    Args:
        host: an address of this machine; by default loopback.
        port: 0 is any free one; None is the first port that is free, from `first_port` on.
        first_port: by default the setting `dashboard_port`.

    Raises:
        PortTaken: it cannot be bound.
        NotInstalled: the packages are missing.
    """
    check_installed()
    token = make_token()
    host = host or DEFAULT_HOST
    host = DEFAULT_HOST if host == "localhost" else host
    first_port = config.load().dashboard_port if first_port is None else first_port
    ports = [port] if port is not None else _ports_from(first_port)
    for each in ports:
        try:
            listener = _bind(host, each)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and each != ports[-1]:
                continue
            raise PortTaken(
                f"The dashboard cannot listen on {host}:{each}: {error.strerror or error}. Choose another address "
                "with --dashboard-host and --dashboard-port (0: any free port)."
            ) from None
        return Head(HeadInfo(host, listener.getsockname()[1], token), listener)
    raise AssertionError("the last port is tried or refused")


def _ports_from(first: int) -> list[int]:
    """The ports to try, in order; 0 is any free one.

    >>> _ports_from(8265)[:2], _ports_from(8265)[-1], _ports_from(65_535), _ports_from(0)
    ([8265, 8266], 0, [65535, 0], [0])
    """
    return [*range(first, min(first + _PORTS_TRIED, 1 << 16)), 0] if first else [0]


def _bind(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def make_token() -> str:
    """The token of a head process: of its own, or the one that Ray's clients get from RAY_AUTH_TOKEN.

    Raises:
        ValueError: the variable is set, and easy to guess.
    """
    given = config.user_environ().get("RAY_AUTH_TOKEN", "")
    if not given:
        return secrets.token_urlsafe(_TOKEN_BYTES)
    if len(given) < _TOKEN_MIN or not given.isprintable() or not given.isascii():
        raise ValueError(f"RAY_AUTH_TOKEN must have {_TOKEN_MIN} printable ASCII characters or more.")
    return given


def write_head(path: str, info: HeadInfo) -> None:
    """Say in a session's folder where its head process is, to this user alone."""
    temporary = f"{path}/{FILE}.new"
    with open(trust.create_file(temporary), "w", encoding="utf-8") as file:
        json.dump(as_dict(info), file)
    os.replace(temporary, f"{path}/{FILE}")


def read_head(path: str) -> HeadInfo | None:
    """Where the head process of a session is; None if it has none, or the folder is not this user's."""
    try:
        folder = trust.open_folder(path)
    except OSError:
        return None
    try:
        facts = json.loads(trust.read_file(FILE, folder))
        return HeadInfo(str(facts["host"]), int(facts["port"]), str(facts["token"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    finally:
        os.close(folder)


def remove_head(path: str) -> None:
    """The head process of a session is permanently gone."""
    with contextlib.suppress(OSError):
        os.unlink(f"{path}/{FILE}")


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
