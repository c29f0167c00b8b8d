"""From a graph of applications to a list of deployments."""

from __future__ import annotations

from typing import Any

from sundog import serve
from sundog.serve.build import build
from sundog.serve.rows import DeploymentID


def test_dependencies_come_first_and_equal_names_are_told_apart() -> None:
    @serve.deployment
    class Model:
        pass

    @serve.deployment
    class Ingress:
        pass

    shared = Model.bind()
    made = build(Ingress.bind(shared, [Model.bind()], again=shared), "app", lambda _, where: where)

    assert [each.name for each in made.deployments] == ["Model", "Model_1", "Ingress"]
    assert made.ingress == "Ingress"
    assert made.downstream == {"Model": [], "Model_1": [], "Ingress": ["Model", "Model_1"]}
    ingress: Any = made.deployments[-1]
    first = DeploymentID("Model", "app")
    assert ingress.init_args == (first, [DeploymentID("Model_1", "app")])
    assert ingress.init_kwargs == {"again": first}
