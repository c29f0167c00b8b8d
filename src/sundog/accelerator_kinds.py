"""Resources that come in single pieces, each with an id: GPUs, and the accelerators of other makers.

Owns their names, the variables by which the makers' libraries find the pieces that they may use, and which of them
can be shared by several tasks. Names and variables are those of Ray 2.60. Runs in any process.
"""

from __future__ import annotations

from collections.abc import Mapping

from sundog.plain import NamedTuple

GPU = "GPU"


class Kind(NamedTuple):
    """What there is to know of one kind of accelerator."""

    variable: str
    noset: str  # the variable by which users forbid sundog to set it
    shared: bool = False  # a task may request a share of one device
    amounts: tuple[int, ...] = ()  # the only amounts that a task may request
    model: str = ""  # the only model of this kind, as `accelerator_type=` names it


KINDS = {
    GPU: Kind("CUDA_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", shared=True),
    "TPU": Kind("TPU_VISIBLE_CHIPS", "RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS", amounts=(1, 2, 4, 8)),
    "neuron_cores": Kind(
        "NEURON_RT_VISIBLE_CORES",
        "RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES",
        model="aws-neuron-core",
    ),
    "HPU": Kind("HABANA_VISIBLE_MODULES", "RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES"),
    "NPU": Kind("ASCEND_RT_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES", shared=True),
    "RBLN": Kind("RBLN_DEVICES", "RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES"),
    "MBLT": Kind("QBRUNTIME_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_MBLT_RT_VISIBLE_DEVICES"),
    "FURIOSA": Kind("FURIOSA_DEVICES", "RAY_EXPERIMENTAL_NOSET_FURIOSA_DEVICES"),
    "TTNPU": Kind("TT_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_TENSTORRENT_VISIBLE_DEVICES"),
}


def models(resources: Mapping[str, float]) -> dict[str, float]:
    """What a machine with these resources has besides, for work that asks by `accelerator_type=`."""
    kinds = [KINDS[name] for name, amount in resources.items() if name in KINDS and amount > 0]
    return {f"accelerator_type:{kind.model}": 1.0 for kind in kinds if kind.model}


def check_pieces(name: str, resource: str, amount: float) -> None:
    """Check an amount that an option named `name` asks for.

    Raises:
        ValueError: the kind cannot be had in such an amount.
    """
    kind = KINDS[resource]
    if kind.amounts and amount and amount not in kind.amounts:
        allowed = ", ".join(map(str, kind.amounts))
        raise ValueError(
            f"{name}={{{resource!r}: {amount:g}}} is not allowed. The allowed amounts are {allowed}."
        )
    if not kind.shared and amount != int(amount):
        raise ValueError(
            f"{name}={{{resource!r}: {amount:g}}} is not allowed: the amount must be a whole number."
        )


def check_shares(demand: Mapping[str, float]) -> None:
    """Of what comes in pieces, a task may have a share of one, or several whole ones. Checked when it is submitted.

    Raises:
        ValueError: it asks for one and a half.
    """
    for name, amount in demand.items():
        if amount > 1 and amount != int(amount) and name in KINDS:
            raise ValueError(
                f"{amount:g} {name} is not allowed: the amount must be below 1 or a whole number."
            )
