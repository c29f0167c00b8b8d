"""Serve's public names under Ray's path `serve.api`."""

from sundog.serve.context import get_deployment_actor as get_deployment_actor
from sundog.serve.context import get_deployment_actor_context as get_deployment_actor_context
from sundog.serve.context import get_multiplexed_model_id as get_multiplexed_model_id
from sundog.serve.context import get_replica_context as get_replica_context
from sundog.serve.deployment import Application as Application
from sundog.serve.deployment import Deployment as Deployment
from sundog.serve.deployment import deployment as deployment
from sundog.serve.ingress import ingress as ingress
from sundog.serve.multiplex import multiplexed as multiplexed
from sundog.serve.verbs import RunTarget as RunTarget
from sundog.serve.verbs import _run as _run
from sundog.serve.verbs import _run_many as _run_many
from sundog.serve.verbs import delete as delete
from sundog.serve.verbs import get_app_handle as get_app_handle
from sundog.serve.verbs import get_deployment_handle as get_deployment_handle
from sundog.serve.verbs import run as run
from sundog.serve.verbs import run_many as run_many
from sundog.serve.verbs import shutdown as shutdown
from sundog.serve.verbs import shutdown_async as shutdown_async
from sundog.serve.verbs import start as start
from sundog.serve.verbs import status as status
