"""`ActorGroup`: several actors of one class that are called together.

Owns the actors it created, from `start` to `shutdown`. Refuses to be used between the two. Kept for programs that have
it; `util.ActorPool` and `util.multiprocessing.Pool` do more. The caller's thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sundog
from sundog.util.annotations import Deprecated

if TYPE_CHECKING:
    from typing import NoReturn

    from sundog.actor import ActorHandle
    from sundog.refs import ObjectRef

_PATIENCE_S = 5.0


@dataclass
class ActorWrapper:
    """One actor, and what its `get_actor_metadata` said."""

    actor: ActorHandle[object]
    metadata: object


@dataclass
class ActorConfig:
    """What each actor of a group asks for."""

    num_cpus: float
    num_gpus: float
    resources: dict[str, float] | None
    init_args: tuple[object, ...]
    init_kwargs: dict[str, object]


class ActorGroupMethod:
    """A method of all actors of a group."""

    def __init__(self, actor_group: ActorGroup, method_name: str) -> None:
        self.actor_group = weakref.ref(actor_group)
        self._method_name = method_name

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"Methods of a group cannot be called directly. Use group.{self._method_name}.remote(...)."
        )

    def remote(self, *args: object, **kwargs: object) -> list[ObjectRef[Any]]:
        """Call it on every actor; gives a list of refs."""
        group = self.actor_group()
        if group is None:
            raise RuntimeError(
                "The ActorGroup of this method was garbage collected: keep a reference to the group."
            )
        return [getattr(each.actor, self._method_name).remote(*args, **kwargs) for each in group.actors]


@Deprecated(message="For stateless or stateful tasks, use ray.util.multiprocessing instead.", warning=True)
class ActorGroup:
    """Actors of one class.

    Args:
        actor_cls: the plain class.
        num_actors: how many.
        num_cpus_per_actor, num_gpus_per_actor, resources_per_actor: what each asks for.
        init_args, init_kwargs: for the constructor.

    Raises:
        ValueError: less than one actor, or an amount below zero.
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: dict[str, float] | None = None,
        init_args: tuple[object, ...] | None = None,
        init_kwargs: Mapping[str, object] | None = None,
    ) -> None:
        if num_actors <= 0:
            raise ValueError(f"num_actors must be at least 1, not {num_actors}.")
        if num_cpus_per_actor < 0 or num_gpus_per_actor < 0:
            raise ValueError(
                f"num_cpus_per_actor={num_cpus_per_actor} and num_gpus_per_actor={num_gpus_per_actor} must not be "
                "negative."
            )
        self.actors: list[ActorWrapper] = []
        self.num_actors = num_actors
        self.actor_config = ActorConfig(
            num_cpus_per_actor,
            num_gpus_per_actor,
            resources_per_actor,
            tuple(init_args or ()),
            dict(init_kwargs or {}),
        )
        self._actor_cls: sundog.ActorClass[object] = sundog.remote(
            num_cpus=num_cpus_per_actor, num_gpus=num_gpus_per_actor, resources=resources_per_actor
        )(actor_cls)
        self.start()

    def __getattr__(self, item: str) -> ActorGroupMethod:
        if item.startswith("_") or "actors" not in self.__dict__:
            raise AttributeError(item)
        if not self.actors:
            raise RuntimeError(f"{item} cannot be called: this group was shut down. Call start() first.")
        getattr(self.actors[0].actor, item)  # raises if the class has no such method
        return ActorGroupMethod(self, item)

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, item: int) -> ActorWrapper:
        return self.actors[item]

    def start(self) -> None:
        """Create the actors.

        Raises:
            RuntimeError: they are there.
        """
        if self.actors:
            raise RuntimeError("This group runs already. Call shutdown() before start().")
        self.add_actors(self.num_actors)

    def add_actors(self, num_actors: int) -> None:
        """Create more; waits until each has answered `get_actor_metadata`, if its class has this method."""
        config = self.actor_config
        made = [self._actor_cls.remote(*config.init_args, **config.init_kwargs) for _ in range(num_actors)]
        told: list[object] = [None] * num_actors
        if made and hasattr(made[0], "get_actor_metadata"):
            told = sundog.get([actor.get_actor_metadata.remote() for actor in made])
        self.actors += [ActorWrapper(actor, metadata) for actor, metadata in zip(made, told)]

    def remove_actors(self, actor_indexes: list[int]) -> None:
        """Release some; they end when no other handle is left."""
        gone = set(actor_indexes)
        self.actors = [each for index, each in enumerate(self.actors) if index not in gone]

    def shutdown(self, patience_s: float = _PATIENCE_S) -> None:
        """End the actors: they finish the calls that they have, and after `patience_s` they are killed."""
        actors = [each.actor for each in self.actors]
        self.actors = []
        waiting = [actor.__ray_terminate__.remote() for actor in actors] if patience_s > 0 else []
        if waiting:
            _, waiting = sundog.wait(waiting, num_returns=len(waiting), timeout=patience_s)
        if waiting or patience_s <= 0:
            for actor in actors:
                sundog.kill(actor)

    @property
    def actor_metadata(self) -> list[object]:
        """What `get_actor_metadata` of each actor said."""
        return [each.metadata for each in self.actors]
