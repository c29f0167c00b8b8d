"""A shuffle puts every item of every input into one output."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from sundog.experimental import shuffle


@pytest.mark.parametrize("writer", [shuffle.ObjectStoreWriter, shuffle.ObjectStoreWriterNonStreaming])
@pytest.mark.parametrize("outputs", [1, 3])
def test_every_item_arrives_once(ray: ModuleType, writer: Any, outputs: int) -> None:
    def gather(_: int, parts: list[Any]) -> list[int]:
        items = [item for part in parts for item in part]
        return items if writer is shuffle.ObjectStoreWriterNonStreaming else ray.get(items)

    found = shuffle.simple_shuffle(
        input_reader=lambda number: range(10 * number, 10 * number + 10),
        input_num_partitions=4,
        output_num_partitions=outputs,
        output_writer=gather,
        object_store_writer=writer,
    )
    assert len(found) == outputs
    assert sorted(item for items in found for item in items) == list(range(40))


def test_a_run_says_how_much_it_moved(ray: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    shuffle.run(num_partitions=2, partition_size=1e6)
    assert "Shuffled 2 MB" in capsys.readouterr().out
    with pytest.raises(ValueError, match="num_nodes"):
        shuffle.run(num_nodes=2)
