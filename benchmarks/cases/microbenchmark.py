"""The cases of `ray microbenchmark` (Ray 2.60), under the names that it prints.

Each does what the case of that name does there, with counts scaled to a machine of two cores, alike for every
system: where Ray's uses half the cores as servers and four clients, here are two of each, and batches are of
BATCH calls instead of 5,000 or 10,000. The cases of the Ray Client (a proxy over gRPC) have no counterpart
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import work
from benchmarks.cases import rate
from benchmarks.systems import System

BATCH = 1000
SERVERS = 2
CLIENTS = 2
LARGE_BYTES = 800 * 1024 * 1024
MEDIUM_BYTES = 80 * 1024 * 1024
REFS_IN_OBJECT = 10_000
GROUPS = 100

Call = Callable[[], object]


@rate("single client get calls (Plasma Store)", group="objects", needs="put")
def get_calls(api: System) -> Call:
    ref = api.put(0)
    return lambda: api.get(ref)


@rate("single client put calls (Plasma Store)", group="objects", needs="put", headline=True)
def put_calls(api: System) -> Call:
    return lambda: api.put(0)


@rate("multi client put calls (Plasma Store)", group="objects", needs="nested put", per_call=1000)
def multi_put_calls(api: System) -> Call:
    task = api.remote(work.put_small_values)
    return lambda: api.get([task.remote(api, 100) for _ in range(10)])


@rate(
    "single client put gigabytes",
    group="objects",
    needs="puts_large",
    per_call=LARGE_BYTES / 1e9,
    unit="GB/s",
)
def put_gigabytes(api: System) -> Call:
    import numpy as np

    array = np.zeros(LARGE_BYTES // 8, dtype=np.int64)
    # Ray's own run warms up for seconds; ours is short, so touch the store's memory before it.
    for _ in range(2):
        api.put(array)
    return lambda: api.put(array)


@rate("single client tasks and get batch", group="tasks", needs="tasks")
def tasks_and_get_batch(api: System) -> Call:
    task = api.remote(work.small_value)
    return lambda: api.get([task.remote() for _ in range(BATCH)])


@rate(
    "multi client put gigabytes",
    group="objects",
    needs="nested put",
    per_call=CLIENTS * 10 * MEDIUM_BYTES / 1e9,
    unit="GB/s",
)
def multi_put_gigabytes(api: System) -> Call:
    task = api.remote(work.put_large_arrays)
    return lambda: api.get([task.remote(api, 10, MEDIUM_BYTES) for _ in range(CLIENTS)])


@rate("single client get object containing 10k refs", group="objects", needs="nested put")
def get_object_of_refs(api: System) -> Call:
    ref = api.remote(work.list_of_refs).remote(api, REFS_IN_OBJECT)
    if len(api.get(ref)) != REFS_IN_OBJECT:
        raise AssertionError("the object does not hold the refs that were put into it")
    return lambda: api.get(ref)


@rate("single client wait 1k refs", group="tasks", needs="tasks wait")
def wait_refs(api: System) -> Call:
    task = api.remote(work.small_value)

    def wait_one_by_one() -> None:
        rest: list[Any] = [task.remote() for _ in range(1000)]
        fetch = True
        while rest:
            # Asking for the fetch once is enough, as in Ray's own case.
            _, rest = api.wait(rest, fetch_local=fetch)
            fetch = False

    return wait_one_by_one


@rate("single client tasks sync", group="tasks", needs="tasks", headline=True)
def tasks_sync(api: System) -> Call:
    task = api.remote(work.small_value)
    return lambda: api.get(task.remote())


@rate("single client tasks async", group="tasks", needs="tasks", per_call=BATCH, headline=True)
def tasks_async(api: System) -> Call:
    task = api.remote(work.small_value)
    return lambda: api.get([task.remote() for _ in range(BATCH)])


@rate("multi client tasks async", group="tasks", needs="nested actors", per_call=BATCH * CLIENTS)
def multi_tasks_async(api: System) -> Call:
    clients = servers(api, CLIENTS)
    return lambda: api.get([c.small_value_batch.remote(api, BATCH) for c in clients])


def servers(api: System, count: int, **options: object) -> list[Any]:
    cls = api.actor(work.Server, num_cpus=0, **options)
    return [cls.remote() for _ in range(count)]


@rate("1:1 actor calls sync", group="actors", needs="actors", headline=True)
def actor_sync(api: System) -> Call:
    (server,) = servers(api, 1)
    return lambda: api.get(server.small_value.remote())


@rate("1:1 actor calls async", group="actors", needs="actors", per_call=BATCH, headline=True)
def actor_async(api: System) -> Call:
    (server,) = servers(api, 1)
    return lambda: api.get([server.small_value.remote() for _ in range(BATCH)])


@rate("1:1 actor calls concurrent", group="actors", needs="threaded_actors", per_call=BATCH)
def actor_concurrent(api: System) -> Call:
    (server,) = servers(api, 1, max_concurrency=16)
    return lambda: api.get([server.small_value.remote() for _ in range(BATCH)])


@rate("1:n actor calls async", group="actors", needs="nested actors", per_call=BATCH * SERVERS)
def one_to_many(api: System) -> Call:
    client = api.actor(work.Client, num_cpus=0).remote(api, servers(api, SERVERS))
    return lambda: api.get(client.call_batch.remote(BATCH))


@rate("n:n actor calls async", group="actors", needs="nested actors", per_call=BATCH * CLIENTS)
def many_to_many(api: System) -> Call:
    targets = servers(api, SERVERS)
    task = api.remote(work.call_each)
    return lambda: api.get([task.remote(api, targets, BATCH) for _ in range(CLIENTS)])


@rate("n:n actor calls with arg async", group="actors", needs="nested actors put", per_call=BATCH * CLIENTS)
def many_to_many_with_arg(api: System) -> Call:
    cls = api.actor(work.Client, num_cpus=0)
    clients = [cls.remote(api, [server]) for server in servers(api, CLIENTS)]
    return lambda: api.get([c.call_batch_with_ref.remote(BATCH) for c in clients])


@rate("1:1 async-actor calls sync", group="async actors", needs="async_actors", headline=True)
def async_actor_sync(api: System) -> Call:
    server = api.actor(work.AsyncServer).remote()
    return lambda: api.get(server.small_value.remote())


@rate(
    "1:1 async-actor calls async", group="async actors", needs="async_actors", per_call=BATCH, headline=True
)
def async_actor_async(api: System) -> Call:
    server = api.actor(work.AsyncServer).remote()
    return lambda: api.get([server.small_value.remote() for _ in range(BATCH)])


@rate("1:1 async-actor calls with args async", group="async actors", needs="async_actors", per_call=BATCH)
def async_actor_with_args(api: System) -> Call:
    server = api.actor(work.AsyncServer).remote()
    return lambda: api.get([server.small_value_arg.remote(i) for i in range(BATCH)])


@rate(
    "1:n async-actor calls async", group="async actors", needs="nested async_actors", per_call=BATCH * SERVERS
)
def one_to_many_async(api: System) -> Call:
    cls = api.actor(work.AsyncServer)
    client = api.actor(work.Client, num_cpus=0).remote(api, [cls.remote() for _ in range(SERVERS)])
    return lambda: api.get(client.call_batch.remote(BATCH))


@rate(
    "n:n async-actor calls async", group="async actors", needs="nested async_actors", per_call=BATCH * CLIENTS
)
def many_to_many_async(api: System) -> Call:
    cls = api.actor(work.AsyncServer)
    targets = [cls.remote() for _ in range(SERVERS)]
    task = api.remote(work.call_each)
    return lambda: api.get([task.remote(api, targets, BATCH) for _ in range(CLIENTS)])


@rate("placement group create/removal", group="groups", needs="groups", per_call=GROUPS)
def groups_create_remove(api: System) -> Call:
    return lambda: api.remove_groups(api.create_groups(GROUPS))
