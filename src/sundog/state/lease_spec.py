"""What one lease must offer: the words in which owners ask the node.

Owns: ``LeaseSpec``. A module of its own, because every driver and worker imports it at its start.
"""

from __future__ import annotations

from sundog.plain import plain

GROUP_REMOVED = "its placement group was removed"
"""The ``reason`` of StopWorker and of Infeasible when a placement group went away: owners fail such work."""


@plain(frozen=True, slots=False)
class LeaseSpec:
    """What one lease must offer. Equal specs share one queue.

    ``permanent`` marks a lease for life (an actor's): it is never asked back, and nothing is kept free for a
    request that could only be met after it ends.

    ``strategy`` is one of ``("default",)``, ``("spread",)``, ``("node", node_id, soft, when full)``,
    ``("pg", pg_id, bundle_index)`` with index -1 for any bundle, and ``("labels", hard, soft)`` where hard
    and soft are tuples of conditions as in ``labels.py``.

    ``fallbacks``: label selectors that would do as well, the best first, where no node that matches ``label_selector``
    has room.

    ``prefer``: the node where the arguments are (the first bytes of its id): it is taken if it has room. ``origin``:
    the node of the owner: it comes first while less than half of it is used; empty means the head, which comes first
    anyway. Both are of the default strategy alone.

    ``memory_cap``: bytes of its own memory beyond which the node ends what runs on the lease; 0 = no cap.
    """

    resources: tuple[tuple[str, float], ...]
    env_key: str
    strategy: tuple[object, ...] = ("default",)
    label_selector: tuple[tuple[str, str], ...] = ()
    placement: tuple[tuple[str, float], ...] = ()
    permanent: bool = False
    memory_cap: float = 0.0
    fallbacks: tuple[tuple[tuple[str, str], ...], ...] = ()
    prefer: bytes = b""
    origin: bytes = b""
