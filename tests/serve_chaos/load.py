"""HTTP clients that ask without pause, and write down what became of each request. Real sockets, kept alive."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import NamedTuple

_TIMEOUT_S = 60.0


class Asked(NamedTuple):
    """One request and its end. Times are of the monotonic clock."""

    good: float  # when the connection last gave an answer, or was made
    began: float
    ended: float
    status: int  # 0: the connection broke
    version: int  # of the answer; 0: none
    text: str  # of the answer, or of the error of the connection


class Load:
    """Some clients, each with a connection of its own."""

    def __init__(self, port: int, clients: int, path: str = "/") -> None:
        self.asked: list[Asked] = []
        self._port, self._path = port, path
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._client, daemon=True) for _ in range(clients)]
        for each in self._threads:
            each.start()

    def end(self) -> list[Asked]:
        """Stop asking; returns all that was asked."""
        self._is_over.set()
        for each in self._threads:
            each.join(2 * _TIMEOUT_S)
        assert not any(each.is_alive() for each in self._threads), "a client still waits for its answer"
        return self.asked

    def _client(self) -> None:
        while not self._is_over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
            try:
                self._use(connection)
            finally:
                connection.close()

    def _use(self, connection: http.client.HTTPConnection) -> None:
        """Ask over one connection until it ends."""
        good = time.monotonic()
        is_open = True
        while is_open and not self._is_over.is_set():
            asked, is_open = self._ask(connection, good)
            self.asked.append(asked)
            good = asked.ended

    def _ask(self, connection: http.client.HTTPConnection, good: float) -> tuple[Asked, bool]:
        began = time.monotonic()
        try:
            connection.request("GET", self._path)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return Asked(good, began, time.monotonic(), 0, 0, repr(error)), False
        version = int(json.loads(text)["version"]) if answer.status == 200 else 0
        return Asked(good, began, time.monotonic(), answer.status, version, text), not answer.will_close
