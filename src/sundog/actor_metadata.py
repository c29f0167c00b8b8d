"""What programs read of an actor class beside calling it: `A.__ray_metadata__`.

Owns the two read-only views, on the class and on its methods. Made when a program asks for it. Runs in any process.
"""

from __future__ import annotations

from sundog.handle_data import ClassMembers
from sundog.options import ActorOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sundog.public_ids import ActorClassID


class ActorMethodMetadata:
    """The methods of an actor class: each attribute is a dict by the method's name."""

    def __init__(self, cls: type, members: ClassMembers) -> None:
        options = members.methods
        self.methods = {name: getattr(cls, name) for name in options}
        self.signatures = {name: members.signatures[name].full().parameters.values() for name in options}
        self.decorators = {
            name: found
            for name, member in self.methods.items()
            if (found := getattr(member, "__ray_invocation_decorator__", None)) is not None
        }
        self.num_returns = {name: each.num_returns for name, each in options.items()}
        self.max_task_retries = {name: each.max_task_retries for name, each in options.items()}
        self.retry_exceptions = {name: each.retry_exceptions for name, each in options.items()}
        self.enable_task_events = {name: each.enable_task_events for name, each in options.items()}
        self.method_is_generator = {name: name in members.generators for name in options}
        self.concurrency_group_for_methods = {
            name: each.concurrency_group for name, each in options.items() if each.concurrency_group
        }
        self.generator_backpressure_num_objects = {
            name: each._generator_backpressure_num_objects
            for name, each in options.items()
            if each._generator_backpressure_num_objects is not None
        }


class ActorClassMetadata:
    """An actor class: its plain class, its name, and the options that it was decorated with."""

    is_cross_language = False

    def __init__(self, cls: type, options: ActorOptions, members: ClassMembers) -> None:
        self.modified_class = cls
        self.class_name = getattr(cls, "__qualname__", cls.__name__)
        self.method_meta = ActorMethodMetadata(cls, members)
        for name in (
            "num_cpus",
            "num_gpus",
            "memory",
            "object_store_memory",
            "resources",
            "accelerator_type",
            "max_restarts",
            "max_task_retries",
            "concurrency_groups",
            "runtime_env",
            "scheduling_strategy",
            "label_selector",
            "fallback_strategy",
        ):
            setattr(self, name, getattr(options, name))

    @property
    def class_id(self) -> ActorClassID:
        """An id of the class: the same for the same module and name."""
        from hashlib import sha1

        from sundog.public_ids import ActorClassID

        cls = self.modified_class
        digest = sha1(f"{cls.__module__}.{cls.__qualname__}".encode(), usedforsecurity=False).digest()
        return ActorClassID(digest + bytes(ActorClassID.size() - len(digest)))
