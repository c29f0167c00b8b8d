"""Whether a program that wants to join a session can: it and the session's workers exchange pickles and bytecode.

Owns the number of the protocol between processes of a session, and the sentence for a program that speaks another one
or runs on another Python. Pure; made by the driver that joins, judged by the node.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import sundog

if TYPE_CHECKING:
    from sundog.plain import JsonObject

# Goes up whenever a message between two processes changes in a way that the other side would misread.
PROTOCOL = 9


def own() -> JsonObject:
    """What this process runs on."""
    return {
        "protocol": PROTOCOL,
        "sundog": sundog.__version__,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        # Bytecode of functions and the layout of objects are those of a minor version, and of a way to build it.
        "interpreter": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
    }


def refusal(session: str, ours: JsonObject, theirs: JsonObject | None, executable: str) -> str | None:
    """Why a program cannot join the session whose workers run on `ours`; None if it can."""
    theirs = theirs or {}
    remedy = f"Run the program with: {executable}, or in a session of its own: init(address='local')"
    if theirs.get("protocol") != ours["protocol"]:
        other = (
            f"{theirs.get('sundog', 'of an earlier version')} (protocol {theirs.get('protocol', 'unknown')})"
        )
        return (
            f"The session {session} runs sundog {ours['sundog']} (protocol {ours['protocol']}), this program sundog "
            f"{other}: their messages are not compatible. {remedy}"
        )
    if theirs.get("interpreter") != ours["interpreter"]:
        named = (ours["python"], str(theirs.get("python")))
        # another build, for example without the interpreter lock
        if ours["python"].split(".")[:2] == named[1].split(".")[:2]:
            named = (f"{named[0]} ({ours['interpreter']})", f"{named[1]} ({theirs.get('interpreter')})")
        return (
            f"The session {session} runs Python {named[0]}, this program Python {named[1]}: functions of one crash the "
            f"other. {remedy}"
        )
    return None
