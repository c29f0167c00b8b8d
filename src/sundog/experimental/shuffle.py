"""A shuffle in two rounds of tasks: every input partition is split, and every output partition is put together.

    reader(i) ─► rows ─► partitioner ─► (output, row) ─► one writer per output     map task, one result per output
    output j: the j-th results of all map tasks ─► output_writer(j, parts)         reduce task

Owns nothing between two calls. `run` measures one on random numbers. The caller's process; the work is tasks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import sundog

if TYPE_CHECKING:
    from typing import TypeVar

    from sundog.actor import ActorHandle
    from sundog.refs import ObjectRef

    T = TypeVar("T")

PartitionID = int


class ObjectStoreWriter:
    """Puts each part in the object store as it comes, so that a map task needs little memory."""

    def __init__(self) -> None:
        self.results: list[object] = []

    def add(self, item: object) -> None:
        """Take one part."""
        self.results.append(sundog.put(item))

    def finish(self) -> list[object]:
        """Refs to the parts."""
        return self.results


class ObjectStoreWriterNonStreaming(ObjectStoreWriter):
    """Keeps the parts until the map task returns them all together."""

    def add(self, item: object) -> None:
        """Take one part."""
        self.results.append(item)


def round_robin_partitioner(
    input_stream: Iterable[T], num_partitions: int
) -> Iterator[tuple[PartitionID, T]]:
    """Give the items to the output partitions in turn.

    >>> list(round_robin_partitioner("abc", 2))
    [(0, 'a'), (1, 'b'), (0, 'c')]
    """
    for index, item in enumerate(input_stream):
        yield index % num_partitions, item


class _Tracker:
    """How many partitions are read and written."""

    def __init__(self) -> None:
        self.refs: list[list[ObjectRef[object]]] = [[], []]

    def register_objectrefs(
        self, map_refs: list[ObjectRef[object]], reduce_refs: list[ObjectRef[object]]
    ) -> None:
        self.refs = [list(map_refs), list(reduce_refs)]

    def get_progress(self) -> tuple[int, int]:
        counts = []
        for refs in self.refs:
            ready = sundog.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0] if refs else []
            counts.append(len(ready))
        return counts[0], counts[1]


def render_progress_bar(
    tracker: ActorHandle[_Tracker], input_num_partitions: int, output_num_partitions: int
) -> None:
    """Show two bars until both are full."""
    from tqdm import tqdm

    with (
        tqdm(total=input_num_partitions, desc="map", position=0) as mapped,
        tqdm(total=output_num_partitions, desc="reduce", position=1) as reduced,
    ):
        while mapped.n < input_num_partitions or reduced.n < output_num_partitions:
            mapped.n, reduced.n = sundog.get(tracker.get_progress.remote())
            mapped.refresh()
            reduced.refresh()
            time.sleep(0.1)


def simple_shuffle(
    *,
    input_reader: Callable[[PartitionID], Iterable[object]],
    input_num_partitions: int,
    output_num_partitions: int,
    output_writer: Callable[[PartitionID, list[object]], object],
    partitioner: Callable[
        [Iterable[object], int], Iterable[tuple[PartitionID, object]]
    ] = round_robin_partitioner,
    object_store_writer: type[ObjectStoreWriter] = ObjectStoreWriter,
    tracker: ActorHandle[_Tracker] | None = None,
) -> list[Any]:
    """Read, split, put together, write; gives what `output_writer` gave for each output partition.

    Args:
        input_reader: the items of an input partition.
        output_writer: takes an output partition's number, and what each map task wrote for it.
        partitioner: which output partition each item goes to.
        object_store_writer: how a map task keeps what it splits.
        tracker: an actor that is told the refs of both rounds.
    """

    @sundog.remote(num_returns=output_num_partitions)
    def shuffle_map(number: PartitionID) -> object:
        writers = [object_store_writer() for _ in range(output_num_partitions)]
        for output, item in partitioner(input_reader(number), output_num_partitions):
            writers[output].add(item)
        parts: list[object] = [writer.finish() for writer in writers]
        return parts if len(parts) != 1 else parts[0]  # a single result is returned itself, not as a list

    @sundog.remote
    def shuffle_reduce(number: PartitionID, *parts: object) -> object:
        return output_writer(number, list(parts))

    mapped = [shuffle_map.remote(number) for number in range(input_num_partitions)]
    rows = [[each] if output_num_partitions == 1 else each for each in mapped]
    reduced = [
        shuffle_reduce.remote(number, *[row[number] for row in rows])
        for number in range(output_num_partitions)
    ]
    if tracker is not None:
        tracker.register_objectrefs.remote([row[0] for row in rows], reduced)
        render_progress_bar(tracker, input_num_partitions, output_num_partitions)
    return list(sundog.get(reduced))


def run(
    ray_address: str | None = None,
    object_store_memory: float = 1e9,
    num_partitions: int = 5,
    partition_size: float = 200e6,
    num_nodes: int | None = None,
    num_cpus: int = 8,
    no_streaming: bool = False,
    use_wait: bool = False,
    tracker: ActorHandle[_Tracker] | None = None,
) -> None:
    """Shuffle `num_partitions` partitions of `partition_size` bytes of numbers, and say how long it took.

    Raises:
        ValueError: `num_nodes` is given: a session has one node.
    """
    import numpy

    if num_nodes is not None:
        raise ValueError("num_nodes= needs several nodes, and a session has one. Leave it out.")
    if ray_address is not None:
        sundog.init(address=ray_address, ignore_reinit_error=True)
    else:
        sundog.init(num_cpus=num_cpus, object_store_memory=int(object_store_memory), ignore_reinit_error=True)
    rows = int(partition_size) // (8 * 2)
    if tracker is None and use_wait:
        tracker = sundog.remote(_Tracker).remote()

    def read(_: PartitionID) -> Iterator[object]:
        for _ in range(num_partitions):
            yield numpy.ones((rows // num_partitions, 2), dtype=numpy.int64)

    def write(_: PartitionID, parts: list[Any]) -> int:
        total = 0
        for part in parts:
            for item in part:
                array = item if no_streaming else sundog.get(item)
                total += array.size * array.itemsize
        return total

    start = time.monotonic()
    sizes = simple_shuffle(
        input_reader=read,
        input_num_partitions=num_partitions,
        output_num_partitions=num_partitions,
        output_writer=write,
        object_store_writer=ObjectStoreWriterNonStreaming if no_streaming else ObjectStoreWriter,
        tracker=tracker,
    )
    print(f"Shuffled {sum(sizes) / 1e6:.0f} MB in {time.monotonic() - start:.1f} seconds.")


def main() -> None:
    """The same from the command line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--ray-address")
    parser.add_argument("--object-store-memory", type=float, default=1e9)
    parser.add_argument("--num-partitions", type=int, default=5)
    parser.add_argument("--partition-size", type=float, default=200e6)
    parser.add_argument("--num-cpus", type=int, default=8)
    parser.add_argument("--no-streaming", action="store_true")
    run(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
