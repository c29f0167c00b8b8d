"""The actor machine, event by event."""

from __future__ import annotations

import pickle

import pytest

from sundog.state.actors import (
    ALIVE,
    DEAD,
    DEPENDENCIES_UNREADY,
    PENDING_CREATION,
    RESTARTING,
    SETTLED_S,
    ActorRow,
    Actors,
    Construct,
    NameTaken,
    PlaceActor,
    Publish,
    Terminate,
    Unplace,
)

ID, OWNER, W1, W2 = b"actor-1", b"owner", b"worker-1", b"worker-2"


def alive(actors: Actors, **options: object) -> ActorRow:
    settings: dict[str, object] = {"owner": OWNER, **options}
    actors.register(ID, **settings)  # type: ignore[arg-type]
    actors.start(ID, 0.0)
    actors.placed(ID, W1, 1, 0.0)
    actors.ready(ID, 0)
    row = actors.get(ID)
    assert row is not None and row.state == ALIVE
    return row


def test_an_actor_is_placed_once_its_arguments_are_ready() -> None:
    actors = Actors()
    assert actors.register(ID, owner=OWNER) == [Publish(ID, DEPENDENCIES_UNREADY, None, 0)]
    assert actors.start(ID, 0.0) == [Publish(ID, PENDING_CREATION, None, 0), PlaceActor(ID)]
    assert actors.placed(ID, W1, 7, 0.0) == [Construct(ID, W1, 0)]
    assert actors.ready(ID, 0) == [Publish(ID, ALIVE, W1, 0)]


def test_a_name_is_held_until_the_actor_is_dead() -> None:
    actors = Actors()
    alive(actors, name="n", namespace="s")
    with pytest.raises(NameTaken) as taken:
        actors.register(b"other", owner=OWNER, name="n", namespace="s")
    assert taken.value.existing_id == ID
    assert str(pickle.loads(pickle.dumps(taken.value))) == str(taken.value)
    assert actors.get(b"other") is None
    actors.register(b"other", owner=OWNER, name="n", namespace="elsewhere")
    actors.kill(ID, True, "kill", 1.0)
    assert actors.lookup("n", "s") is None
    actors.register(b"third", owner=OWNER, name="n", namespace="s")
    assert actors.lookup("n", "s") == b"third"


@pytest.mark.parametrize("end", ["crash", "exit", "constructor"])
@pytest.mark.parametrize("release", ["handles", "kill", "owner", "forgotten"])
def test_an_actor_that_died_by_itself_keeps_its_name_until_nobody_relies_on_it(
    end: str, release: str
) -> None:
    actors = Actors(dead_max=1)
    actors.register(ID, owner=OWNER, name="n")
    actors.start(ID, 0.0)
    actors.placed(ID, W1, 1, 0.0)
    if end == "constructor":
        actors.init_failed(ID, b"error", 0)
    else:
        actors.ready(ID, 0)
        actors.worker_died(W1, "crash", 1.0) if end == "crash" else actors.exited(ID, "exit")
    row = actors.get(ID)
    assert row is not None and row.state == DEAD
    assert actors.lookup("n", "") == ID
    with pytest.raises(NameTaken):
        actors.register(b"other", owner=OWNER, name="n")
    actors.kill(ID, False, "kill", 2.0)
    assert actors.lookup("n", "") == ID, "a kill that lets it restart is not its end"
    if release == "handles":
        actors.out_of_scope(ID, 2.0)
    elif release == "kill":
        actors.kill(ID, True, "kill", 2.0)
    elif release == "owner":
        actors.owner_died(OWNER, 2.0)
    else:
        actors.register(b"next", owner=OWNER)
        actors.kill(b"next", True, "kill", 2.0)
        assert actors.get(ID) is None
    assert actors.lookup("n", "") is None
    actors.register(b"other", owner=OWNER, name="n")
    actors.out_of_scope(ID, 3.0)
    actors.kill(ID, True, "kill", 3.0)
    assert actors.lookup("n", "") == b"other", "what comes late takes nothing from the next one"
    assert [type(step) for step in actors.owner_died(OWNER, 4.0)] == [Publish]


def test_a_detached_actor_gives_back_its_name_when_it_dies() -> None:
    actors = Actors()
    alive(actors, name="n", detached=True)
    actors.worker_died(W1, "crash", 1.0)
    assert actors.lookup("n", "") is None


def test_a_dead_worker_restarts_its_actor_while_restarts_are_left() -> None:
    actors = Actors()
    row = alive(actors, max_restarts=1)
    assert actors.worker_died(W1, "signal 9", 1.0) == [
        Publish(ID, RESTARTING, None, 1, "signal 9"),
        PlaceActor(ID, 0.0, 1),
    ]
    assert actors.placed(ID, W2, 2, 1.0) == [Construct(ID, W2, 1)]
    assert actors.ready(ID, 1) == [Publish(ID, ALIVE, W2, 1)]
    assert actors.worker_died(W2, "again", 2.0) == [Publish(ID, DEAD, None, 1, "again")]
    assert row.state == DEAD


def test_minus_one_restarts_for_ever() -> None:
    actors = Actors()
    row = alive(actors, max_restarts=-1)
    for life in range(1, 50):
        assert row.worker is not None
        actors.worker_died(row.worker, "x", 1.0)
        actors.placed(ID, f"w{life}".encode(), life, 1.0)
        actors.ready(ID, life)
    assert row.state == ALIVE and row.incarnation == 49


def restart_delay(actors: Actors, now: float) -> float:
    """Let the actor die, bring it back, and give the delay that its restart had."""
    row = actors.get(ID)
    assert row is not None and row.worker is not None
    place = actors.worker_died(row.worker, "crash", now)[-1]
    assert isinstance(place, PlaceActor) and place.incarnation == row.incarnation
    actors.placed(ID, b"worker-%d" % (row.incarnation + 1), row.incarnation, now)
    actors.ready(ID, row.incarnation, now)
    return place.delay_s


def test_an_actor_that_dies_young_again_and_again_is_restarted_ever_later() -> None:
    actors = Actors()
    alive(actors, max_restarts=-1)
    delays = [restart_delay(actors, float(number)) for number in range(12)]
    assert delays[0] == 0.0, "the first restart is at once"
    assert 0 < delays[1] < delays[3] < delays[5] < delays[7]
    assert max(delays) <= 10
    now = 12 + SETTLED_S
    assert restart_delay(actors, now) == 0.0, "it had settled: this is another matter"
    assert restart_delay(actors, now + 1) > 0


def test_a_kill_does_not_count_against_the_actor() -> None:
    actors = Actors()
    alive(actors, max_restarts=-1)
    for number in range(5):
        actors.kill(ID, False, "kill", float(number))
        assert restart_delay(actors, float(number)) == 0.0


def test_a_worker_that_dies_in_the_constructor_counts_as_a_life() -> None:
    actors = Actors()
    actors.register(ID, owner=OWNER)
    actors.start(ID, 0.0)
    actors.placed(ID, W1, 1, 0.0)
    assert actors.worker_died(W1, "segfault", 1.0) == [Publish(ID, DEAD, None, 0, "segfault")]


def test_a_constructor_that_raised_is_not_tried_again() -> None:
    actors = Actors()
    actors.register(ID, owner=OWNER, max_restarts=5)
    actors.start(ID, 0.0)
    actors.placed(ID, W1, 1, 0.0)
    assert actors.init_failed(ID, b"error", 0) == [
        Terminate(ID, W1, True),
        Publish(ID, DEAD, None, 0, b"error"),
    ]


def test_the_word_of_an_earlier_life_is_ignored() -> None:
    actors = Actors()
    alive(actors, max_restarts=3)
    actors.worker_died(W1, "x", 1.0)
    actors.placed(ID, W2, 2, 1.0)
    assert actors.ready(ID, 0) == []
    assert actors.init_failed(ID, b"old", 0) == []
    assert actors.exited(ID, "old", 0) == []
    assert actors.ready(ID, 1) == [Publish(ID, ALIVE, W2, 1)]


def test_kill_without_restart_is_final_at_once() -> None:
    actors = Actors()
    alive(actors, max_restarts=3)
    assert actors.kill(ID, True, "kill()", 1.0) == [
        Terminate(ID, W1, False),
        Publish(ID, DEAD, None, 0, "kill()"),
    ]
    assert actors.worker_died(W1, "signal 9", 1.0) == []
    assert actors.kill(ID, True, "kill()", 1.0) == []


def test_kill_with_restart_comes_back_and_says_why() -> None:
    actors = Actors()
    alive(actors, max_restarts=1)
    assert actors.kill(ID, False, "kill()", 1.0) == [Terminate(ID, W1, False)]
    assert actors.worker_died(W1, "signal 9", 1.0)[0] == Publish(ID, RESTARTING, None, 1, "kill()")


def test_kill_of_an_actor_that_waits_for_a_place_withdraws_the_ask() -> None:
    actors = Actors()
    actors.register(ID, owner=OWNER)
    actors.start(ID, 0.0)
    assert actors.kill(ID, True, "kill()", 1.0) == [Unplace(ID), Publish(ID, DEAD, None, 0, "kill()")]
    assert actors.placed(ID, W1, 1, 1.0) == [Terminate(ID, W1, False)], "the lease must not be lost"


def test_a_mild_kill_of_a_waiting_actor_ends_only_one_that_could_not_come_back() -> None:
    actors = Actors()
    actors.register(ID, owner=OWNER, max_restarts=1)
    assert actors.kill(ID, False, "kill()", 1.0) == []
    actors.register(b"mortal", owner=OWNER)
    assert actors.kill(b"mortal", False, "kill()", 1.0) == [Publish(b"mortal", DEAD, None, 0, "kill()")]


def test_out_of_scope_lets_the_calls_that_arrived_finish() -> None:
    actors = Actors()
    row = alive(actors, max_restarts=3)
    assert actors.out_of_scope(ID, 1.0) == [Terminate(ID, W1, True)]
    assert row.state == ALIVE
    assert actors.out_of_scope(ID, 1.0) == []
    assert actors.worker_died(W1, "exit 0", 2.0) == [Publish(ID, DEAD, None, 0, "out_of_scope")]


def test_a_detached_actor_outlives_its_handles_and_its_owner() -> None:
    actors = Actors()
    row = alive(actors, detached=True)
    assert actors.out_of_scope(ID, 1.0) == []
    assert actors.owner_died(OWNER, 1.0) == []
    assert row.state == ALIVE


def test_a_detached_actor_whose_arguments_died_with_its_owner_is_dead() -> None:
    actors = Actors()
    actors.register(ID, owner=OWNER, detached=True)
    assert actors.owner_died(OWNER, 1.0) == [Publish(ID, DEAD, None, 0, "owner_died")]


def test_actors_end_with_their_owner() -> None:
    actors = Actors()
    alive(actors, max_restarts=-1)
    actors.register(b"actor-2", owner=OWNER)
    actors.start(b"actor-2", 0.0)
    out = actors.owner_died(OWNER, 1.0)
    assert Terminate(ID, W1, False) in out and Unplace(b"actor-2") in out
    assert all(row.state == DEAD for row in actors.rows())


def test_exit_actor_is_not_restarted() -> None:
    actors = Actors()
    alive(actors, max_restarts=-1)
    assert actors.exited(ID, "exit_actor()", 0) == [Publish(ID, DEAD, None, 0, "exit_actor()")]
    assert actors.worker_died(W1, "exit 0", 1.0) == []


def test_late_duplicate_and_unknown_events_are_ignored() -> None:
    actors = Actors()
    alive(actors)
    assert actors.register(ID, owner=OWNER) == []
    assert actors.start(ID, 1.0) == []
    assert actors.placed(ID, W1, 1, 1.0) == []
    assert actors.ready(ID, 0) == []
    assert actors.init_failed(ID, b"late", 0) == []
    for event in (
        actors.start(b"?", 0.0),
        actors.ready(b"?"),
        actors.init_failed(b"?", b""),
        actors.worker_died(b"?", "", 0.0),
        actors.kill(b"?", True, "", 0.0),
        actors.out_of_scope(b"?", 0.0),
        actors.exited(b"?", ""),
        actors.owner_died(b"?", 0.0),
    ):
        assert event == []


def test_a_second_lease_for_an_actor_that_has_one_is_given_up() -> None:
    actors = Actors()
    alive(actors)
    assert actors.placed(ID, W2, 2, 1.0) == [Terminate(ID, W2, False)]
    assert actors.on_worker(W1) is actors.get(ID) and actors.on_worker(W2) is None


def test_only_so_many_dead_rows_are_remembered() -> None:
    actors = Actors(dead_max=3)
    for n in range(10):
        actors.register(f"a{n}".encode(), owner=OWNER)
        actors.kill(f"a{n}".encode(), True, "x", 0.0)
    assert [row.actor_id for row in actors.rows()] == [b"a7", b"a8", b"a9"]


def test_the_oldest_of_the_dead_are_forgotten_and_that_is_known() -> None:
    actors = Actors(dead_max=3)
    creator, other = b"C" * 8, b"D" * 8
    ids = [creator + number.to_bytes(8, "little") for number in range(1, 8)]
    for actor_id in ids:
        actors.register(
            actor_id, owner=creator, name="", namespace="", detached=False, max_restarts=0, spec={}, now=0.0
        )
        actors.kill(actor_id, True, "killed", 0.0)
    assert [actors.get(actor_id) is None for actor_id in ids] == [True] * 4 + [False] * 3
    assert [actors.was_forgotten(actor_id) for actor_id in ids[:4]] == [True] * 4
    assert not actors.was_forgotten(creator + (8).to_bytes(8, "little"))
    assert not actors.was_forgotten(other + (1).to_bytes(8, "little"))
