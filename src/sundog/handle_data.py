"""What a handle knows of its actor: the row that travels with every handle, and that the node keeps.

Owns the row. The creator of an actor fills it (`actor.py`, `engines/creation.py`), the node hands it out with a
name, and a method reads it at its first call. Runs in any process.
"""

from __future__ import annotations

from sundog.options import ActorOptions, MethodOptions
from sundog.plain import field, plain
from sundog.signatures import Signature


@plain(frozen=True)
class ClassMembers:
    """What an actor class has: its names, its methods, their options and what they take."""

    class_name: str
    class_path: str
    methods: dict[str, MethodOptions]
    generators: frozenset[str]
    signatures: dict[str, Signature]
    decorators: dict[str, bytes] = field(
        default_factory=dict
    )  # decorators of methods for their calls, pickled


@plain(eq=False)
class HandleData:
    """One actor, as its handles know it."""

    members: ClassMembers
    groups: tuple[str, ...] = ()  # its concurrency groups, by name
    max_task_retries: int = 0
    max_pending_calls: int = -1
    out_of_order: bool = False  # a call may overtake a call that waits for its arguments
    task_events: bool = True
    concurrent: bool = False  # calls run at the same time
    unread_max: int = 0  # unread items of all its generators; 0: no limit

    @classmethod
    def of(cls, members: ClassMembers, options: ActorOptions) -> HandleData:
        """The row of an actor that is about to be created; `concurrent` is known when its class is looked at."""
        return cls(
            members,
            groups=tuple(sorted(options.concurrency_groups or ())),
            max_task_retries=options.max_task_retries,
            max_pending_calls=options.max_pending_calls,
            out_of_order=bool(options.allow_out_of_order_execution),
            task_events=options.enable_task_events,
            unread_max=options._actor_generator_backpressure_num_objects or 0,
        )
