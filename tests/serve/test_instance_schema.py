"""The shapes of what the REST interface tells."""

from __future__ import annotations

from sundog.serve import schema
from sundog.serve.instance_schema import DeploymentAutoscalingDetail, TargetGroup


def test_users_find_all_of_them_in_serve_schema() -> None:
    names = (
        "AutoscalingMetricsHealth", "AutoscalingStatus", "ControllerHealthMetrics", "DeploymentAutoscalingDetail",
        "DeploymentNode", "DeploymentTopology", "DurationStats", "RequestProtocol", "ScalingDecision", "Target",
        "TargetGroup",
    )  # fmt: skip
    assert all(hasattr(schema, name) for name in names)


def test_what_json_tells_becomes_the_classes() -> None:
    found = DeploymentAutoscalingDetail.model_validate(
        {"scaling_status": "UPSCALING", "decisions": [
            {"timestamp_s": 1.0, "reason": "load", "prev_num_replicas": 1, "curr_num_replicas": 2}]}
    )  # fmt: skip
    assert found.scaling_status is schema.AutoscalingStatus.UPSCALING
    assert found.decisions[0].curr_num_replicas == 2
    group = TargetGroup.model_validate({"targets": [], "route_prefix": "/", "protocol": "HTTP"})
    assert group.protocol is schema.RequestProtocol.HTTP
