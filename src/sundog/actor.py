"""`@remote` on classes: actor classes and handles; `exit_actor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from sundog import engines
from sundog.actor_method import ActorMethod, Core, check_group, method, method_of
from sundog.engines.creation import lives_on
from sundog.handle_data import ClassMembers, HandleData
from sundog.ids import RESULT_SUFFIX
from sundog.options import ActorOptions, MethodOptions, parse_actor_options
from sundog.owner import context
from sundog.printable import printable
from sundog.refs import Counterparts, ObjectRef
from sundog.serialize.pack import pack_function
from sundog.signatures import Signature, check_yields, is_generator

if TYPE_CHECKING:
    from typing import Unpack

    from sundog.actor_metadata import ActorClassMetadata
    from sundog.call_types import Makes, Makes1, Makes2, Makes3, Makes4
    from sundog.dag import ClassNode
    from sundog.engines.foreign import Native
    from sundog.option_types import ActorKeywords, RemoteKeywords
    from sundog.public_ids import ActorID

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorClassWithOptions",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "exit_actor",
    "method",
    "typed",
]

__tracebackhide__ = True  # pytest folds the frames of this file

MYPY = False  # true to mypy alone
P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)  # a handle to a cat is a handle to an animal
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

_BUILT_IN = ("__ray_ready__", "__ray_terminate__", "__ray_call__")


class ActorHandle(Generic[T_co], metaclass=Counterparts):
    """A handle to an actor: call its methods with `.remote()`, pass it to tasks and other actors."""

    def __init__(self, actor_id: bytes, data: HandleData, scope: ObjectRef[object] | None) -> None:
        self._core = Core(actor_id, data, scope)

    @property
    def _ray_actor_id(self) -> ActorID:
        from sundog.public_ids import ActorID

        return ActorID(self._core.actor_id)

    @property
    def _actor_id(self) -> ActorID:
        return self._ray_actor_id

    def __getattr__(self, name: str) -> ActorMethod[..., Any]:
        if name in _BUILT_IN:
            options = MethodOptions()
        else:
            core = self.__dict__.get("_core")
            if core is None:
                raise AttributeError(name)
            methods: dict[str, MethodOptions] = core.data.members.methods
            found = methods.get(name)
            if found is None and name.startswith("__"):
                raise AttributeError(name)  # Python and libraries look for these in every object
            if found is None:
                raise AttributeError(
                    f"Actor class {core.class_name} has no method {name!r}. Its methods: "
                    f"{', '.join(sorted(methods)) or 'none'}. Attributes of an actor cannot be read from outside: "
                    "write a method that returns them."
                )
            options = found
        bound = method_of(self._core, name, options)
        self.__dict__[name] = bound  # the next look-up does not reach this function
        return bound

    def __reduce__(self) -> tuple[object, ...]:
        core = self._core
        return (_rebuild_handle, (core.actor_id, core.data, core.scope))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._core.actor_id == other._core.actor_id

    def __hash__(self) -> int:
        return hash(self._core.actor_id)

    def __repr__(self) -> str:
        return f"Actor({self._core.data.members.class_path}, {self._core.actor_id.hex()})"

    def __dir__(self) -> list[str]:
        return ["__init__", *self._core.data.members.methods, *_BUILT_IN]


def _rebuild_handle(
    actor_id: bytes, data: HandleData, scope: ObjectRef[object] | None
) -> ActorHandle[object]:
    return ActorHandle(actor_id, data, scope)


if TYPE_CHECKING:
    ActorProxy = ActorHandle[T] | type[T]
else:
    ActorProxy = ActorHandle  # Ray's name for a handle whose methods have types


def typed(handle: ActorHandle[T]) -> type[T]:
    """The same handle, for type checkers: the methods of its class that are under `@method` have their types.

    Python's types cannot say "the methods of T, called by `.remote()`", so `handle.name` is not checked and gives Any.
    Through `typed(handle)` a method is found in the class: `@method` says there what a call takes and returns.

    >>> import sundog
    >>> class Counter:
    ...     @sundog.method
    ...     def add(self, amount: int) -> int:
    ...         return amount
    >>> with sundog.init(num_cpus=1):
    ...     counter = typed(sundog.remote(Counter).remote())
    ...     sundog.get(counter.add.remote(2))  # an int to type checkers; add.remote("2") is an error
    2
    """
    return handle  # type: ignore[return-value]


class ActorClassInheritanceException(TypeError):
    """An actor class was used as a base class."""


class _Creates(Generic[T]):
    """What makes actors: an actor class, as it was decorated or with other options."""

    _cls: type[T]

    def _create(self, args: tuple[object, ...], kwargs: dict[str, object]) -> ActorHandle[T]:
        raise NotImplementedError

    if MYPY:  # mypy cannot read a constructor's parameters from type[T], as pyright does

        def remote(self, *args: object, **kwargs: object) -> ActorHandle[T]:
            """Create an actor."""
            raise NotImplementedError

    else:

        @overload
        def remote(self: Makes[P, T], *args: P.args, **kwargs: P.kwargs) -> ActorHandle[T]: ...
        @overload
        def remote(
            self: Makes1[A, P, T], a: A | ObjectRef[A], /, *args: P.args, **kwargs: P.kwargs
        ) -> ActorHandle[T]: ...
        @overload
        def remote(
            self: Makes2[A, B, P, T],
            a: A | ObjectRef[A],
            b: B | ObjectRef[B],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> ActorHandle[T]: ...
        @overload
        def remote(
            self: Makes3[A, B, C, P, T],
            a: A | ObjectRef[A],
            b: B | ObjectRef[B],
            c: C | ObjectRef[C],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> ActorHandle[T]: ...
        @overload
        def remote(
            self: Makes4[A, B, C, D, P, T],
            a: A | ObjectRef[A],
            b: B | ObjectRef[B],
            c: C | ObjectRef[C],
            d: D | ObjectRef[D],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> ActorHandle[T]: ...
        def remote(self, *args: object, **kwargs: object) -> ActorHandle[T]:
            """Create an actor; its constructor runs in its own process."""
            return self._create(args, kwargs)


class ActorClass(_Creates[T]):
    """A class whose instances live in processes of their own; `.remote()` makes one."""

    def __init__(self, cls: type[T], options: ActorOptions) -> None:
        self._cls = cls
        self._options = options
        self._native: dict[object, Native[ActorHandle[T]]] = {}  # as another engine has it
        self._name = printable(cls.__name__)
        self.__name__ = cls.__name__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__
        self.__qualname__ = cls.__qualname__
        self.__ray_actor_class__ = cls

    # Looked up at the first use. A class whose methods refer to the class itself is unpickled in two steps.
    # This object is made between them, when the class has no methods yet.
    @cached_property
    def _members(self) -> ClassMembers:
        return _members(self._cls)

    @cached_property
    def _takes(self) -> Signature:
        return Signature.of(self._cls.__init__, bound=True)

    @property
    def __ray_metadata__(self) -> ActorClassMetadata:
        from sundog.actor_metadata import ActorClassMetadata

        return ActorClassMetadata(self._cls, self._options, self._members)

    def __dir__(self) -> list[str]:
        own = ["__ray_actor_class__", "__ray_metadata__", "_remote", "bind", "options", "remote"]
        return sorted({*dir(self._cls), *own})

    def __getattr__(self, name: str) -> Any:
        # Constants and static methods of the class are there without an actor, as they are in Ray.
        if name.startswith("__"):
            raise AttributeError(f"Actor class has no attribute {name!r}.")
        return getattr(self._cls, name)

    def __init_subclass__(cls, **kwargs: object) -> None:
        raise ActorClassInheritanceException(
            "An actor class cannot be a base class. Inherit from the plain class, and put @remote on the subclass."
        )

    def __mro_entries__(self, bases: tuple[object, ...]) -> NoReturn:
        raise ActorClassInheritanceException(
            f"Actor class {self._name} cannot be a base class. Inherit from the plain class, and put @remote on the "
            "subclass."
        )

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"Actor class {self._name} cannot be instantiated directly. Use {self._name}.remote(...) instead of "
            f"{self._name}(...)."
        )

    def options(self, **overrides: Unpack[ActorKeywords]) -> ActorClassWithOptions[T]:
        """The same class with other options."""
        return ActorClassWithOptions(self, self._options.merged(**overrides))

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[ActorKeywords],
    ) -> ActorHandle[T]:
        """Create an actor, with arguments in a list and a dict, and options for this one alone."""
        chosen = self._options.merged(**options) if options else self._options
        return self._create_with(chosen, tuple(args or ()), dict(kwargs or {}))

    def bind(self, *args: object, **kwargs: object) -> ClassNode:
        """A node of a graph (`sundog.dag`) that makes such an actor when the graph is executed."""
        from sundog.dag import ClassNode

        return ClassNode(self, args, kwargs)

    def _create(self, args: tuple[object, ...], kwargs: dict[str, object]) -> ActorHandle[T]:
        return self._create_with(self._options, args, kwargs)

    def _create_with(
        self, options: ActorOptions, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> ActorHandle[T]:
        from sundog.api import engine_or_init

        self._takes.check(self._name, args, kwargs)
        if engines.current() is None and (other := engines.elsewhere(start=True)) is not None:
            return other.create(self, options, args, kwargs)
        engine = engine_or_init()
        data = HandleData.of(self._members, options)
        actor_id, is_new = engine.create_actor(self._cls, self._name, options, data, args, kwargs)
        if not is_new:
            from sundog.api import get_actor

            return get_actor(options.name or "", options.namespace)
        scope: ObjectRef[object] | None = (
            None if lives_on(options) else ObjectRef(actor_id + RESULT_SUFFIX, None)
        )
        handle: ActorHandle[T] = ActorHandle(actor_id, data, scope)
        handle._core.cls = self._cls
        return handle

    def __reduce__(self) -> tuple[object, ...]:
        if engines.foreign is not None:
            engines.foreign.bind(self)
        if self._native:
            return (_rebuild_class, (self._cls, self._options, self._native))
        return (_rebuild_class, (self._cls, self._options))

    def __repr__(self) -> str:
        return f"ActorClass({self._name})"


class ActorClassWithOptions(_Creates[T]):
    """An actor class with options of its own."""

    def __init__(self, base: ActorClass[T], options: ActorOptions) -> None:
        self._base = base
        self._cls = base._cls
        self._options = options

    def _create(self, args: tuple[object, ...], kwargs: dict[str, object]) -> ActorHandle[T]:
        return self._base._create_with(self._options, args, kwargs)

    def options(self, **overrides: Unpack[ActorKeywords]) -> ActorClassWithOptions[T]:
        """The same class with yet other options."""
        return ActorClassWithOptions(self._base, self._options.merged(**overrides))

    def bind(self, *args: object, **kwargs: object) -> ClassNode:
        """A node of a graph (`sundog.dag`) that makes such an actor when the graph is executed."""
        from sundog.dag import ClassNode

        return ClassNode(ActorClass(self._cls, self._options), args, kwargs)


def _rebuild_class(
    cls: type[T], options: ActorOptions, native: dict[object, Native[ActorHandle[T]]] | None = None
) -> ActorClass[T]:
    made = ActorClass(cls, options)
    made._native = native or {}
    return made


_DEFAULT_METHOD = MethodOptions()
_OF_HANDLES = frozenset(
    {
        "__del__",
        "__copy__",
        "__deepcopy__",
        "__getattr__",
        "__getnewargs__",
        "__getnewargs_ex__",
        "__setstate__",
    }
)


def _members(cls: type) -> ClassMembers:
    """What a handle has to know of its class: its methods, their options and what they take."""
    import inspect

    methods: dict[str, MethodOptions] = {}
    decorators: dict[str, bytes] = {}
    generators = []
    signatures = {}
    for name, member in inspect.getmembers(cls, callable):
        if name.startswith("__") and not _is_special_method(cls, name, member):
            continue
        methods[name] = getattr(member, "__sundog_options__", _DEFAULT_METHOD)
        if is_generator(member):
            generators.append(name)
        else:
            check_yields(f"{cls.__name__}.{name}", methods[name].num_returns, False)
        decorator = getattr(member, "__ray_invocation_decorator__", None)
        if decorator is not None:
            decorators[name] = pack_function(decorator)[0]
        is_static = isinstance(inspect.getattr_static(cls, name), staticmethod)
        signatures[name] = Signature.of(member, bound=inspect.isfunction(member) and not is_static)
    return ClassMembers(
        class_name=printable(cls.__name__),
        class_path=printable(cls.__qualname__),
        methods=methods,
        generators=frozenset(generators),
        signatures=signatures,
        decorators=decorators,
    )


def _is_special_method(cls: type, name: str, member: object) -> bool:
    """Whether `handle.__len__.remote()` and its like call the actor: the class has it, and the handle is no such thing.

    What a handle answers itself (`__repr__`, `__eq__`, …), and by which Python copies and makes it, is not the actor's.
    """
    import inspect

    if name in _OF_HANDLES or any(name in base.__dict__ for base in ActorHandle.__mro__):
        return False
    return inspect.isroutine(member) and any(name in base.__dict__ for base in cls.__mro__)


def make_actor_class(cls: type[T], given: RemoteKeywords) -> ActorClass[T]:
    """`@remote` or `@remote(**given)` on a class.

    Raises:
        TypeError: the class is abstract, so no actor of it could be made.
    """
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise TypeError(
            f"Class {cls.__name__} is abstract: {', '.join(missing)} must be defined in a subclass. "
            "Put @remote on that subclass."
        )
    options = parse_actor_options(given)
    made = ActorClass(cls, options)
    groups = tuple(sorted(options.concurrency_groups or ()))
    for name, method_options in made._members.methods.items():
        if method_options.concurrency_group:
            check_group(cls.__name__, name, method_options.concurrency_group, groups)
    return made


def exit_actor() -> NoReturn:
    """End the actor that this method runs in, on purpose; calls that wait for it fail.

    Raises:
        SystemExit: to unwind the method; in an asyncio actor AsyncioActorExit, which a loop's tasks can pass on.
        TypeError: called outside of an actor.
    """
    if engines.foreign is not None:
        engines.foreign.exit_actor()
    facts = context.facts
    engine = engines.current()
    if facts.actor_id is None or engine is None or engine.executor is None:
        raise TypeError("exit_actor() ends the actor that calls it, and this code does not run in an actor.")
    engine.executor.leave("exit_actor() was called in it")
    raise engine.executor.exit_error()


def handle_of_current_actor() -> ActorHandle[Any]:
    """A handle to the actor that runs here. It does not count: else an actor that keeps it would never end."""
    facts = context.facts
    data = facts.actor_handle()
    assert facts.actor_id is not None and data is not None
    return ActorHandle(facts.actor_id, data, None)
