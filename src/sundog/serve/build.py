"""From an application, a graph of bound deployments, to the list of deployments to run.

Owns the names of deployments that are bound more than once, and the handles that take the place of applications among
the arguments of constructors. Runs in the user's process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sundog.serialize.substitute import substitute
from sundog.serve.deployment import Application, Deployment
from sundog.serve.rows import DeploymentID

H = TypeVar("H")  # what replaces a deployment among the arguments of another one


@dataclass
class BuiltApplication(Generic[H]):
    """An application that is ready to be deployed."""

    name: str
    ingress: str
    deployments: list[Deployment]
    route_prefix: str | None = "/"
    handles: dict[str, H] = field(default_factory=dict)
    downstream: dict[str, list[str]] = field(default_factory=dict)  # which deployments each is bound to


def build(
    application: Application,
    name: str,
    make_handle: Callable[[Deployment, DeploymentID], H],
    route_prefix: str | None = "/",
) -> BuiltApplication[H]:
    """All deployments of an application, dependencies first.

    Raises:
        ValueError: a deployment is bound to itself.
    """
    made: dict[int, H | None] = {}  # handles, by application
    names: dict[str, int] = {}
    found: list[Deployment] = []
    handles: dict[str, H] = {}
    downstream: dict[str, list[str]] = {}
    names_of: dict[int, str] = {}
    kept: list[Application] = []  # an id names an object only while the object lives

    def visit(app: Application) -> object:
        if id(app) in made:
            if made[id(app)] is None:
                raise ValueError(f"{app._bound_deployment} is bound to itself, directly or through others.")
            return made[id(app)]
        made[id(app)] = None
        kept.append(app)
        bound = app._bound_deployment
        count = names[bound.name] = names.get(bound.name, -1) + 1
        own = bound.name if count == 0 else f"{bound.name}_{count}"
        config = bound._replica_config
        inner = downstream[own] = []

        def take(bound_to: Application) -> object:
            handle = visit(bound_to)
            name_of = names_of[id(bound_to)]
            if name_of not in inner:
                inner.append(name_of)
            return handle

        names_of[id(app)] = own
        deployed = bound.options(
            name=own,
            _init_args=tuple(substitute(each, (Application,), take) for each in config.init_args),
            _init_kwargs={
                key: substitute(each, (Application,), take) for key, each in config.init_kwargs.items()
            },
        )
        deployed._given = bound._given
        found.append(deployed)
        handles[own] = made[id(app)] = make_handle(deployed, DeploymentID(own, name))
        return made[id(app)]

    visit(application)
    return BuiltApplication(name, found[-1].name, found, route_prefix, handles, downstream)
