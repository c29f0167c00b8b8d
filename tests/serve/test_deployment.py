"""Options of deployments, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import serve


def test_options_change_a_copy_alone() -> None:
    @serve.deployment(num_replicas=2, max_ongoing_requests=7)
    class D:
        pass

    other = D.options(num_replicas=3, name="other")
    assert (D.num_replicas, D.name) == (2, "D")
    assert (other.num_replicas, other.name, other.max_ongoing_requests) == (3, "other", 7)


def test_auto_means_between_one_and_a_hundred_replicas() -> None:
    @serve.deployment(num_replicas="auto")
    class D:
        pass

    scaling = D._deployment_config.autoscaling_config
    assert scaling is not None
    assert (scaling.min_replicas, scaling.max_replicas) == (1, 100)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_replicas": 0}, ValueError),
        ({"num_replicas": "many"}, ValueError),
        ({"num_replicas": 1, "autoscaling_config": {"max_replicas": 2}}, ValueError),
        ({"max_ongoing_requests": None}, ValueError),
        ({"max_queued_requests": 0}, ValueError),
        ({"version": "1"}, ValueError),
        ({"name": "a#b"}, ValueError),
        ({"user_config": object()}, ValueError),
        ({"ray_actor_options": {"max_restarts": 3}}, ValueError),
        ({"ray_actor_options": 3}, TypeError),
        ({"nonsense": 3}, TypeError),
        ({"max_replicas_per_node": 0}, ValueError),
        ({"placement_group_strategy": "PACK"}, ValueError),
        ({"rolling_update_config": {"canary": "200%"}}, ValueError),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_written(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):

        @serve.deployment(**options)
        class D:
            pass


def test_a_deployment_is_bound_not_called() -> None:
    @serve.deployment
    def f() -> None: ...

    with pytest.raises(RuntimeError, match="bind"):
        f()
    with pytest.raises(ValueError, match="function deployments"):
        f.bind(1)
    with pytest.raises(TypeError, match="Application"):
        serve.run(f)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="begins with '/', not 'x'"):
        serve.run(f.bind(), route_prefix="x")


@pytest.mark.parametrize("options", [{"num_cpus": -1}, {"memory": -2}, {"resources": {"slots": -1}}])
def test_negative_amounts_of_a_resource_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="takes 0 or more"):
        serve.deployment(ray_actor_options=options)(lambda: 1)
