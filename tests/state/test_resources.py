"""Integer amounts, pools and GPU ids."""

from __future__ import annotations

import pytest

from sundog.state.resources import (
    Holding,
    ResourcePool,
    at_least_both,
    demand_of,
    describe,
    from_units,
    slots_of,
    to_units,
)


def pool(**totals: float) -> ResourcePool:
    return ResourcePool(demand_of(totals))


def ids_of(holding: Holding) -> tuple[int, ...]:
    return dict(holding.ids)["GPU"]


def test_a_thousand_tenths_are_a_hundred() -> None:
    assert from_units(sum(to_units(0.1) for _ in range(1000))) == 100.0


def test_a_tiny_demand_does_not_vanish_by_rounding() -> None:
    assert demand_of({"CPU": 0.00001}) == (("CPU", 1),)


def test_zeros_are_left_out_and_names_are_sorted() -> None:
    assert demand_of({"b": 1, "a": 2, "c": 0}) == (("a", 20_000), ("b", 10_000))


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
def test_an_amount_that_is_no_amount_is_refused_by_name(amount: float) -> None:
    with pytest.raises(ValueError, match="'CPU'"):
        demand_of({"CPU": amount})


def test_the_larger_of_two_demands_is_taken_for_each_resource() -> None:
    assert at_least_both(demand_of({"a": 1, "b": 2}), demand_of({"b": 1, "c": 3})) == demand_of(
        {"a": 1, "b": 2, "c": 3}
    )


def test_what_is_taken_and_given_back_leaves_the_pool_as_it_was() -> None:
    machine = pool(CPU=4, GPU=2, memory=100)
    before = dict(machine.free), dict(machine.slots_free["GPU"])
    holdings = [machine.take(demand_of({"CPU": 0.3, "GPU": 0.3, "memory": 7})) for _ in range(6)]
    for holding in holdings:
        machine.give(holding)
    assert (machine.free, machine.slots_free["GPU"]) == before


def test_taking_what_does_not_fit_draws_nothing() -> None:
    machine = pool(CPU=1, GPU=1)
    with pytest.raises(ValueError, match="GPU: 2"):
        machine.take(demand_of({"CPU": 1, "GPU": 2}))
    assert machine.free == machine.totals


def test_whole_gpus_have_distinct_ids() -> None:
    machine = pool(GPU=4)
    first, second = machine.take(demand_of({"GPU": 2})), machine.take(demand_of({"GPU": 2}))
    assert sorted(ids_of(first) + ids_of(second)) == [0, 1, 2, 3]


def test_fractions_share_the_gpu_with_the_least_room_left() -> None:
    machine = pool(GPU=2)
    assert ids_of(machine.take(demand_of({"GPU": 0.3}))) == (0,)
    assert ids_of(machine.take(demand_of({"GPU": 0.5}))) == (0,)
    assert ids_of(machine.take(demand_of({"GPU": 0.3}))) == (1,)
    assert ids_of(machine.take(demand_of({"GPU": 0.2}))) == (0,)


def test_fractions_left_on_two_gpus_do_not_make_a_whole_one() -> None:
    machine = pool(GPU=2)
    for _ in range(2):
        machine.take(demand_of({"GPU": 0.6}))
    assert not machine.fits(demand_of({"GPU": 0.8}))
    assert machine.missing(demand_of({"GPU": 0.8})) == {"GPU": 8_000}
    assert machine.could_fit(demand_of({"GPU": 2}))


def test_one_gpu_and_a_half_are_two_ids() -> None:
    assert ids_of(pool(GPU=2).take(demand_of({"GPU": 1.5}))) == (0, 1)


def test_a_forced_cpu_may_go_below_zero_and_nothing_that_needs_cpu_fits_then() -> None:
    machine = pool(CPU=1, custom=1)
    machine.take(demand_of({"CPU": 1}))
    machine.force_cpu(to_units(1))
    assert machine.free["CPU"] == -to_units(1)
    assert not machine.fits(demand_of({"CPU": 0.0001}))
    assert machine.fits(demand_of({"custom": 1}))
    assert machine.used_share() == 2.0


def test_what_is_reserved_fits_its_holder_alone() -> None:
    machine = pool(CPU=4, GPU=1, custom=1)
    holder = object()
    machine.reserve(holder, demand_of({"CPU": 3, "GPU": 1}))
    assert machine.fits(demand_of({"CPU": 4}), holder)
    assert machine.fits(demand_of({"CPU": 1, "custom": 1}))
    assert not machine.fits(demand_of({"CPU": 1.5}))
    assert not machine.fits(demand_of({"GPU": 0.1}))


def test_a_dissolved_bundle_gives_back_what_is_free_in_it() -> None:
    machine = pool(CPU=4, GPU=2)
    drawn = machine.take(demand_of({"CPU": 2, "GPU": 1}))
    bundle = ResourcePool(drawn.units, slots_of(drawn.pieces))
    lease = bundle.take(demand_of({"CPU": 1, "GPU": 0.5}))
    assert lease.ids == drawn.ids
    machine.absorb(bundle)
    machine.give(lease)
    assert machine.free == machine.totals and machine.slots_free == machine.slots


def test_every_kind_of_accelerator_has_ids_of_its_own() -> None:
    machine = pool(CPU=4, GPU=2, TPU=4, neuron_cores=2)
    first = machine.take(demand_of({"CPU": 1, "TPU": 2, "GPU": 1}))
    second = machine.take(demand_of({"TPU": 2, "neuron_cores": 1}))
    assert dict(first.ids) == {"GPU": (0,), "TPU": (0, 1)}
    assert dict(second.ids) == {"TPU": (2, 3), "neuron_cores": (0,)}
    assert not machine.fits(demand_of({"TPU": 1})) and machine.fits(demand_of({"neuron_cores": 1}))
    machine.give(first)
    machine.give(second)
    assert machine.free == machine.totals and machine.slots_free == machine.slots


def test_the_name_of_a_resource_forges_no_line_where_a_demand_is_described() -> None:
    assert describe(demand_of({"a\x1b[2J\nb": 1})) == "{a\\x1b[2J\\nb: 1}"
