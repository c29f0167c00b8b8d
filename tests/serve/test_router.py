"""Which replica a request goes to, and when one that waits is looked at again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

from sundog.serve.config import RequestRouterConfig
from sundog.serve.router import Router
from sundog.serve.rows import (
    DeploymentID,
    Rejection,
    ReplicaID,
    RequestMetadata,
    RunningReplicaInfo,
)
from sundog.serve.targets import DeploymentTargets

WHERE = DeploymentID("Model", "app")


class Ref:
    """The ref of an answer."""

    def __init__(self, answer: Future[Any]) -> None:
        self._answer = answer

    def future(self) -> Future[Any]:
        return self._answer


class Actor:
    """A replica that answers when it is told to."""

    def __init__(self) -> None:
        self.answers: list[Future[Any]] = []
        self.handle_request = self.handle_http = self.handle_request_streaming = self

    def remote(self, *_args: Any, **_kwargs: Any) -> Any:
        answer: Future[Any] = Future()
        self.answers.append(answer)
        return Ref(answer)


class Loop:
    """What a router asks of its client."""

    def __init__(self) -> None:
        self.board = None
        self.loop = self
        self.pauses_s: list[float] = []
        self.looks: list[Any] = []

    def soon(self, function: Any, *args: Any) -> None:
        function(*args)

    def call_later(self, delay_s: float, function: Any) -> None:
        self.pauses_s.append(delay_s)
        self.looks.append(function)

    def report_now(self) -> None:
        pass


def router(actors: list[Actor], limit: int = 1, **options: Any) -> tuple[Router, Loop]:
    client = Loop()
    made = Router(client, WHERE)  # type: ignore[arg-type]
    rows = [
        RunningReplicaInfo(ReplicaID(str(number), WHERE), cast(Any, actor), -1, limit)
        for number, actor in enumerate(actors)
    ]
    made.update(DeploymentTargets(rows, **options))
    return made, client


def test_a_router_knows_the_replicas_that_it_was_told_of() -> None:
    made, _ = router([Actor()])
    first = RunningReplicaInfo(ReplicaID("0", WHERE), cast(Any, Actor()), -1, 1)
    second = RunningReplicaInfo(ReplicaID("1", WHERE), cast(Any, Actor()), -1, 1)
    both = DeploymentTargets([first, second])
    assert made.knows(DeploymentTargets([first])) and not made.knows(both)
    made.update(both)
    assert made.knows(both)


def ask(made: Router) -> Any:
    return made.assign(RequestMetadata("request", "internal"), (), {})


def test_the_less_busy_replica_gets_the_request_and_a_full_one_none() -> None:
    actors = [Actor(), Actor()]
    made, client = router(actors, 2)
    calls = [ask(made) for _ in range(5)]

    assert [len(each.answers) for each in actors] == [2, 2]
    assert made.metrics()[0] == 1
    actors[0].answers[0].set_result("done")
    assert len(actors[0].answers) == 3 and made.metrics()[0] == 0
    assert calls[-1].replica.id.unique_id == "0"
    assert client.pauses_s == [0.01]


def test_a_refused_request_is_kept_at_the_head_of_the_line() -> None:
    actor = Actor()
    made, client = router([actor])
    call = ask(made)
    actor.answers[0].set_result(Rejection(1, False))

    assert len(actor.answers) == 2 or client.looks
    for look in client.looks:
        look()
    actor.answers[-1].set_result("done")
    assert call.current.result() == "done"


def test_pauses_that_a_user_has_chosen_are_kept_and_grow() -> None:
    actor = Actor()
    rules = RequestRouterConfig(initial_backoff_s=2, backoff_multiplier=3, max_backoff_s=5)
    made, client = router([actor], router_config=rules)
    ask(made)
    waits = ask(made)
    assert client.pauses_s == [2]
    client.looks.pop()()
    assert client.pauses_s == [2, 5]
    actor.answers[0].set_result("done")
    assert len(actor.answers) == 1  # a place is free, and the pause is not over
    client.looks.pop()()
    actor.answers[1].set_result("done")
    assert waits.current.result() == "done"


def test_a_packed_request_is_sent_only_where_there_is_room() -> None:
    actor = Actor()
    made, _ = router([actor])
    first = made.place_quick(b"request")

    assert first is not None and made.place_quick(b"request") is None
    made.quick_ended(first[0], 0.0)
    assert made.place_quick(b"request") is not None
    assert made.answered["0"][:2] == [1, 0]


def test_a_packed_request_that_needs_care_becomes_a_call() -> None:
    actors = [Actor(), Actor()]
    made, _ = router(actors)
    found = made.place_quick(b"request")
    assert found is not None
    replica, ref = found
    call = made.adopt(RequestMetadata("request", "internal"), ({}, b"", False), replica, ref, 0.0)
    actors[int(replica.id.unique_id)].answers[0].set_result(Rejection(1, False))

    again = [each for actor in actors for each in actor.answers if not each.done()]
    assert len(again) == 1
    again[0].set_result("done")
    assert call.current is not None and call.current.result() == "done"
