"""Kinds of accelerators: each has a variable of its own."""

from __future__ import annotations

from sundog.accelerator_kinds import GPU, KINDS, models


def test_no_two_kinds_share_a_variable() -> None:
    assert len({kind.variable for kind in KINDS.values()}) == len({kind.noset for kind in KINDS.values()})
    assert len({kind.variable for kind in KINDS.values()}) == len(KINDS)


def test_a_gpu_can_be_shared_and_what_comes_in_fixed_amounts_cannot() -> None:
    assert KINDS[GPU].shared
    assert all(not kind.shared for kind in KINDS.values() if kind.amounts)


def test_a_machine_with_a_kind_that_has_one_model_can_be_asked_for_by_it() -> None:
    assert models({"neuron_cores": 2.0, "CPU": 1.0}) == {"accelerator_type:aws-neuron-core": 1.0}
    assert models({"neuron_cores": 0.0, GPU: 1.0}) == {}
