"""An editor at a paused task: the client's side of the Debug Adapter Protocol, for tests."""

from __future__ import annotations

import json
import socket
from typing import Any


class Editor:
    """Speaks the Debug Adapter Protocol, as VS Code does."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._file = self._sock.makefile("rb")
        self._number = 0
        self._thread = self._frame = 0

    def ask(self, command: str, **arguments: Any) -> None:
        self._number += 1
        body = json.dumps(
            {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self._sock.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def hear(self, kind: str) -> Any:
        """The body of the next event, or answer to a command, of this name."""
        while True:
            length = 0
            while (line := self._file.readline()) != b"\r\n":
                assert line, f"the connection ended before {kind!r} came"
                length = int(line.partition(b":")[2])
            message = json.loads(self._file.read(length))
            if kind in (message.get("event"), message.get("command")):
                assert message.get("success", True), message
                return message.get("body")

    def attach(self) -> None:
        self.ask("initialize", adapterID="test")
        self.hear("initialize")
        self.ask("attach", justMyCode=False)
        self.hear("initialized")
        self.ask("configurationDone")

    def see_stop(self) -> tuple[str, int, dict[str, str]]:
        """Wait for a stop, and say where it is and with which names."""
        self._thread = self.hear("stopped")["threadId"]
        self.ask("stackTrace", threadId=self._thread)
        frame = self.hear("stackTrace")["stackFrames"][0]
        self.ask("scopes", frameId=frame["id"])
        scope = self.hear("scopes")["scopes"][0]["variablesReference"]
        self._frame = frame["id"]
        self.ask("variables", variablesReference=scope)
        names = {each["name"]: each["value"] for each in self.hear("variables")["variables"]}
        return frame["name"], frame["line"], names

    def evaluate(self, expression: str) -> str:
        """What the debug console shows, in the frame of the last stop."""
        self.ask("evaluate", expression=expression, frameId=self._frame, context="repl")
        return str(self.hear("evaluate")["result"])

    def let_go_on(self) -> None:
        self.ask("continue", threadId=self._thread)
        self.hear("continue")

    def leave(self) -> None:
        self.ask("disconnect")
        self.hear("disconnect")
        self.vanish()

    def vanish(self) -> None:
        """As an editor that is killed does."""
        self._file.close()
        self._sock.close()

    def stop_place(self) -> tuple[str, int, dict[str, str]]:
        """Attach, wait for the stop, and say where it is and with which names; then leave."""
        self.attach()
        found = self.see_stop()
        self.leave()
        return found
