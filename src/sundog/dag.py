"""Graphs of calls that are described first and run later: `f.bind()`, `Actor.bind()`, `InputNode`, `execute()`.

::

    with InputNode() as x:                 x ─► double ─┐
        graph = add.bind(double.bind(x), 1)            add ─► the ref that execute(3) returns
    ref = graph.execute(3)                      1 ─────┘

Owns the nodes and the rule that each node runs once for each `execute()`, however many others take its result. Nodes
submit ordinary tasks and calls, and hand each other refs, so nothing waits here. Refuses compiled graphs. Runs in the
process that calls `execute()`, on its thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any, NoReturn

from sundog.serialize.substitute import substitute

if TYPE_CHECKING:
    from sundog.remote_function import RemoteFunction

Read = Callable[[Any, Any], object]  # reads a part of the input, of any type: getattr or getitem
_NO_COMPILED = (
    "Compiled graphs are not part of sundog: execute() submits ordinary tasks and calls, which cost a few "
    "microseconds each."
)


class DAGNode:
    """One call of a graph, bound to its arguments, which may be other nodes or have nodes in them."""

    def __init__(
        self, args: tuple[object, ...], kwargs: dict[str, object], options: dict[str, object]
    ) -> None:
        self._bound_args = tuple(args)
        self._bound_kwargs = dict(kwargs)
        self._bound_options = dict(options)
        self._stable_uuid = uuid.uuid4().hex

    def get_args(self) -> tuple[object, ...]:
        """The positional arguments that this node is bound to."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, object]:
        """The keyword arguments that this node is bound to."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict[str, object]:
        """The options of the task or call."""
        return dict(self._bound_options)

    def get_stable_uuid(self) -> str:
        """A name of this node that pickling does not change."""
        return self._stable_uuid

    def execute(self, *args: object, _ray_cache_refs: bool = False, **kwargs: object) -> Any:
        """Run the graph that ends in this node, with what its InputNode stands for.

        Returns:
            What the last node submits: a ref, a list of refs (MultiOutputNode), or an actor's handle.
        """
        return _Execution(args, kwargs).run(self)

    def experimental_compile(self, *args: object, **kwargs: object) -> NoReturn:
        """Out of scope."""
        raise NotImplementedError(_NO_COMPILED)

    def _run(self, execution: _Execution) -> object:
        raise NotImplementedError

    def _inputs(self, execution: _Execution) -> tuple[tuple[object, ...], dict[str, object]]:
        args = tuple(execution.resolve(each) for each in self._bound_args)
        kwargs = {name: execution.resolve(each) for name, each in self._bound_kwargs.items()}
        return args, kwargs

    def __reduce_ex__(self, _protocol: object) -> tuple[object, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[DAGNode], state: dict[str, object]) -> DAGNode:
    node = object.__new__(kind)
    node.__dict__.update(state)
    return node


class _Execution:
    """One run of a graph: what it was given, and what each node has become."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.args, self.kwargs = args, kwargs
        self._done: dict[str, object] = {}

    def run(self, node: DAGNode) -> object:
        key = node._stable_uuid
        if key not in self._done:
            self._done[key] = node._run(self)
        return self._done[key]

    def resolve(self, value: object) -> object:
        return substitute(value, (DAGNode,), self.run)


class FunctionNode(DAGNode):
    """`f.bind(...)`: a task."""

    def __init__(
        self, function: RemoteFunction[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        super().__init__(args, kwargs, {})
        self._body = function

    def _run(self, execution: _Execution) -> object:
        args, kwargs = self._inputs(execution)
        return self._body.remote(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionNode({getattr(self._body, '__name__', self._body)})"


class ClassNode(DAGNode):
    """`A.bind(...)`: an actor that each `execute()` makes anew; its methods are bound as attributes."""

    def __init__(self, actor_class: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        super().__init__(args, kwargs, {})
        self._body = actor_class
        self._last_call: ClassMethodNode | None = None

        def refuse(node: DAGNode) -> DAGNode:
            if isinstance(node, (InputNode, InputAttributeNode)):
                raise ValueError(
                    "An InputNode cannot be an argument of an actor's constructor: its value is known only "
                    "when the graph is executed. Pass it to a method instead."
                )
            for each in (*node._bound_args, *node._bound_kwargs.values()):
                substitute(each, (DAGNode,), refuse)
            return node

        for each in (*args, *kwargs.values()):
            substitute(each, (DAGNode,), refuse)

    def __getattr__(self, name: str) -> _UnboundMethod:
        if name.startswith("__") or name == "_body":
            raise AttributeError(name)
        if name == "bind":
            raise AttributeError(".bind() cannot be used again on a ClassNode: bind one of its methods.")
        plain = getattr(self._body, "__ray_actor_class__", None)
        if plain is None or not hasattr(plain, name):
            raise AttributeError(f"{self._body!r} has no method {name!r}.")
        return _UnboundMethod(self, name, {})

    def _run(self, execution: _Execution) -> object:
        args, kwargs = self._inputs(execution)
        return self._body.remote(*args, **kwargs)

    def __repr__(self) -> str:
        return f"ClassNode({getattr(self._body, '__name__', self._body)})"


class _UnboundMethod:
    """`node.method`, before `.bind()`."""

    def __init__(self, actor: ClassNode, name: str, options: dict[str, object]) -> None:
        self._actor, self._name, self._options = actor, name, options

    def bind(self, *args: object, **kwargs: object) -> ClassMethodNode:
        node = ClassMethodNode(
            self._actor, self._name, args, kwargs, self._options, previous=self._actor._last_call
        )
        self._actor._last_call = node
        return node

    def options(self, **options: object) -> _UnboundMethod:
        return _UnboundMethod(self._actor, self._name, options)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "remote":
            raise AttributeError(
                ".remote() cannot be used on the method of a ClassNode, which is not an actor yet: use .bind()."
            )
        raise AttributeError(name)


class ClassMethodNode(DAGNode):
    """`node.method.bind(...)` or `handle.method.bind(...)`: a call of an actor's method.

    Calls of one actor run in the order in which they were bound: each runs the one before it first.
    """

    def __init__(
        self,
        actor: Any,
        name: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: dict[str, object],
        previous: ClassMethodNode | None = None,
    ) -> None:
        super().__init__(args, kwargs, options)
        self._parent_class_node = actor  # a ClassNode, or the method of an existing actor
        self._method_name = name
        self._prev_class_method_call = previous

    def get_method_name(self) -> str:
        """The method that is called."""
        return self._method_name

    def _run(self, execution: _Execution) -> object:
        if self._prev_class_method_call is not None:
            execution.run(self._prev_class_method_call)
        args, kwargs = self._inputs(execution)
        parent = self._parent_class_node
        # A method of an existing actor, or of an actor that this execution creates.
        method = (
            getattr(execution.run(parent), self._method_name) if isinstance(parent, ClassNode) else parent
        )
        if self._bound_options:
            method = method.options(**self._bound_options)
        return method.remote(*args, **kwargs)

    def __repr__(self) -> str:
        return f"ClassMethodNode({self._method_name}())"


class DAGInputData:
    """What `execute()` was given, when that is more than one value: by position, or by name."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._args, self._kwargs = list(args), kwargs

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, int):
            return self._args[key]
        if isinstance(key, str):
            return self._kwargs[key]
        raise ValueError("The input of a graph is read by a position (int) or by a name (str).")


class InputNode(DAGNode):
    """Stands for what `execute()` will be given. Made in a `with` block; ``x[0]``, ``x["k"]`` and ``x.k`` are parts."""

    def __init__(self, *args: object, input_type: object = None, **kwargs: object) -> None:
        if args or kwargs:
            raise ValueError("InputNode takes no arguments: execute() gets the input.")
        super().__init__((), {}, {})
        self._in_context = False
        self.input_type = input_type
        self.input_attribute_nodes: dict[int | str, InputAttributeNode] = {}

    def __enter__(self) -> InputNode:
        self._in_context = True
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __getattr__(self, name: str) -> InputAttributeNode:
        if name.startswith("_") or name == "input_attribute_nodes":
            raise AttributeError(name)
        return self._part(name, getattr)

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        if not isinstance(key, (int, str)):
            raise AssertionError("The input of a graph is read by a position (int) or by a name (str).")
        return self._part(key, getitem)

    def _part(self, key: int | str, read: Read) -> InputAttributeNode:
        if key not in self.input_attribute_nodes:
            self.input_attribute_nodes[key] = InputAttributeNode(self, key, read)
        return self.input_attribute_nodes[key]

    def _run(self, execution: _Execution) -> object:
        if not self._in_context:
            raise AssertionError(
                "InputNode must be used in a with-block: with InputNode() as x: graph = f.bind(x)."
            )
        if len(execution.args) == 1 and not execution.kwargs:
            return execution.args[0]
        return DAGInputData(*execution.args, **execution.kwargs)

    def __repr__(self) -> str:
        return "InputNode()"


class InputAttributeNode(DAGNode):
    """A part of the input."""

    def __init__(self, whole: InputNode, key: int | str, read: Read) -> None:
        super().__init__((), {}, {})
        self._dag_input_node, self._key, self._read = whole, key, read

    @property
    def key(self) -> int | str:
        """Its position or name."""
        return self._key

    def _run(self, execution: _Execution) -> object:
        value = execution.run(self._dag_input_node)
        if isinstance(value, DAGInputData):
            return value[self._key]
        return self._read(value, self._key)

    def __repr__(self) -> str:
        return f"InputAttributeNode([{self._key!r}])"


class MultiOutputNode(DAGNode):
    """Several ends of a graph: `execute()` returns the list of their refs."""

    def __init__(self, args: Sequence[object]) -> None:
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"MultiOutputNode takes a list of nodes, got {type(args).__name__}.")
        super().__init__(tuple(args), {}, {})

    def _run(self, execution: _Execution) -> object:
        return list(self._inputs(execution)[0])
