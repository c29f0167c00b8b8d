"""Plain fakes for units of the commands: a session that answers what the test says, and notes what it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sundog.wire.requests import Request


@dataclass
class FakeSession:
    """A session: one answer after the other, the last one again and again."""

    answers: list[Any] = field(default_factory=list)
    path: str = "/nowhere"
    name: str = "session-1"
    is_live: bool = True
    asked: list[Request[Any]] = field(default_factory=list)

    def ask(self, question: Request[Any]) -> Any:
        self.asked.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer
