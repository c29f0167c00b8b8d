"""What Ray has under a public name and sundog has not, each with its reason, for errors and for the tests.

Owns sentences alone. A module that is missing here and in the package is a mistake, and the tests find it. Any process.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

# Modules, by their path below the package, with all that is below them.
MODULES = {
    "air": "it belongs to Ray's settings shared by its training libraries, and sundog runs Ray Core programs only",
    "autoscaler": "it belongs to Ray's cluster launcher, and a session lives on one machine",
    "client_builder": "it belongs to Ray Client, which joins a cluster over the network",
    "data": "it belongs to Ray's dataset library, and sundog runs Ray Core programs only",
    "llm": "it belongs to Ray's language-model library, and sundog runs Ray Core programs only",
    "rllib": "it belongs to Ray's reinforcement-learning library, and sundog runs Ray Core programs only",
    "train": "it belongs to Ray's training library, and sundog runs Ray Core programs only",
    "tune": "it belongs to Ray's tuning library, and sundog runs Ray Core programs only",
    "widgets": "it draws Ray's own cards in notebooks",
    "workflow": "it belongs to Ray's workflow library, and sundog runs Ray Core programs only",
    "experimental.channel": "it belongs to Ray's compiled graphs",
    "experimental.compiled_dag_ref": "it belongs to Ray's compiled graphs",
    "experimental.rdt": "it moves tensors between GPUs of several machines",
    "experimental.util": "it belongs to Ray's compiled graphs",
    "serve.async_inference_autoscaling_policy": "it belongs to Ray Serve's task consumers, which sundog has not",
    "serve.gradio_integrations": "sundog's Serve has no integration of Gradio: mount its app with @serve.ingress",
    "serve.grpc_util": "sundog's Serve takes HTTP and WebSockets, and has no gRPC proxy",
    "serve.llm": "it belongs to Ray's language-model library, and sundog runs Ray Core programs only",
    "serve.task_consumer": "it belongs to Ray Serve's task consumers, which sundog has not",
    "serve.task_processor": "it belongs to Ray Serve's task consumers, which sundog has not",
    "serve.taskiq_task_processor": "it belongs to Ray Serve's task consumers, which sundog has not",
    "util.check_open_ports": "it checks the ports of Ray's own services",
    "util.client": "it belongs to Ray Client",
    "util.client_connect": "it belongs to Ray Client",
    "util.collective": "it needs NCCL or Gloo between machines",
    "util.common": "it holds a constant of Ray's own",
    "util.serialization_addons": "what it registers needs no registration here",
    "util.tpu": "it finds slices of Google's machines",
}

# Names in modules that are here.
NAMES = {
    "": {
        "ClientBuilder": "Ray Client",
        "client": "Ray Client",
        "ray_constants": "a private module of Ray",
        "serialization": "a private module of Ray",
        "widgets": "a private module of Ray",
        "worker": "a private module of Ray",
    },
    "actor": dict.fromkeys(
        ("DEFAULT_MAX_CONCURRENCY_ASYNC", "STREAMING_GENERATOR_RETURN"), "it is a number of Ray's protocol"
    ),
    "dag": dict.fromkeys(
        (
            "BIND_INDEX_KEY",
            "COLLECTIVE_OPERATION_KEY",
            "CollectiveOutputNode",
            "DAGContext",
            "DAGNODE_TYPE_KEY",
            "DAGOperationFuture",
            "GPUFuture",
            "IS_CLASS_METHOD_OUTPUT_KEY",
            "PARENT_CLASS_NODE_KEY",
            "PREV_CLASS_METHOD_CALL_KEY",
            "plot",
        ),
        "it belongs to Ray's compiled graphs",
    ),
    "experimental.internal_kv": {"internal_kv_get_gcs_client": "there is no such server"},
    "exceptions": {"PYTHON": "a number of Ray's protocol"},
    "experimental": dict.fromkeys(
        (
            "CommunicatorMetadata",
            "RDTManager",
            "TensorTransportManager",
            "TensorTransportMetadata",
            "deregister_nixl_memory",
            "register_nixl_memory",
            "register_nixl_memory_pool",
            "register_tensor_transport",
            "set_nixl_cuda_stream",
            "set_target_device_for_ref",
            "set_target_for_ref",
            "wait_tensor_freed",
        ),
        "it is about several machines or GPUs that talk to each other",
    ),
    "experimental.shuffle": {"build_cluster": "it makes several nodes"},
    "remote_function": {"STREAMING_GENERATOR_RETURN": "it is a number of Ray's protocol"},
    "runtime_env.runtime_env": dict.fromkeys(
        (
            "DEFAULT_RUNTIME_ENV_TIMEOUT_SECONDS",
            "OPTION_TO_NO_PATH_VALIDATION_FN",
            "OPTION_TO_VALIDATION_FN",
        ),
        "it is part of how Ray checks environments",
    ),
    "serve.autoscaling_policy": dict.fromkeys(
        ("PrometheusQueryMixin", "PrometheusSample", "PrometheusScalar", "PrometheusVector"),
        "sundog's Serve asks no Prometheus server",
    ),
    "serve.schema": dict.fromkeys(
        ("CeleryAdapterConfig", "TaskProcessorAdapter", "TaskProcessorConfig", "TaskResult"),
        "it belongs to Ray Serve's task consumers, which sundog has not",
    ),
    "util": {
        "collective": "it needs NCCL or Gloo between machines",
        "connect": "Ray Client",
        "disconnect": "Ray Client",
    },
    "util.accelerators": {"tpu": "it finds slices of Google's machines"},
    "util.actor_group": {"ActorMetadata": "it is a type variable"},
    "util.debug": {"Suspect": "it belongs to a leak check of Ray's own tests"},
    "util.multiprocessing.pool": dict.fromkeys(
        (
            "OrderedIMapIterator",
            "PoolActor",
            "RAY_ADDRESS_ENV",
            "ResultThread",
            "UnorderedIMapIterator",
            "div_round_up",
            "ray_get_if_needed",
            "ray_put_if_needed",
        ),
        "it is part of how Ray's pool works",
    ),
    "util.placement_group": {"PLACEMENT_GROUP_BUNDLE_RESOURCE_NAME": "bundles are no resources here"},
    "util.serialization": {"StandaloneSerializationContext": "it is part of how Ray pickles"},
}


def getter(path: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module in which some of Ray's names are missing: an import of one says why.

    It raises ImportError for those: the import system replaces the text of an AttributeError.
    """

    def get(name: str) -> NoReturn:
        why = NAMES[path].get(name)
        if why is None:
            raise AttributeError(f"module 'sundog.{path}' has no attribute {name!r}")
        raise ImportError(f"cannot import name {name!r} from 'sundog.{path}': {why}.", name=f"sundog.{path}")

    return get


def reason(path: str) -> str | None:
    """Why there is no module of this path below the package; None if Ray has none either.

    >>> reason("data.block")
    "it belongs to Ray's dataset library, and sundog runs Ray Core programs only"
    """
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        found = MODULES.get(".".join(parts[:end]))
        if found is not None:
            return found
    return None
