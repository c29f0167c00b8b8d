"""`@remote` on classes: actor classes, handles and their methods; `method` and `exit_actor`."""

from __future__ import annotations

from sys import _getframe
from typing import Any

from sundog import engines
from sundog.engines.creation import lives_on
from sundog.ids import RESULT_SUFFIX
from sundog.options import ActorOptions, MethodOptions, MisuseError, parse_actor_options, parse_method_options
from sundog.owner import call_sites, context, timeouts
from sundog.owner.records import DONE, Fn
from sundog.printable import printable
from sundog.refs import ObjectRef
from sundog.serialize.pack import pack_function
from sundog.signatures import Signature, check_yields, is_generator
from sundog.wire import lanes as wire
from sundog.wire.inspect import inspect_of

__tracebackhide__ = True  # pytest folds the frames of this file

_ANYTHING = Signature(None)
_BUILT_IN = ("__ray_ready__", "__ray_terminate__", "__ray_call__")


def method(*args: Any, **given: Any) -> Any:
    """Options of an actor's method, as a decorator: num_returns, concurrency_group, retries."""
    if len(args) == 1 and not given and callable(args[0]):
        return args[0]  # @method without brackets: a method like any other
    if args:
        raise MisuseError(
            "@method needs options: write @method(num_returns=2), for example; without options leave it out."
        )
    parsed = parse_method_options(given)

    def decorate(function: Any) -> Any:
        function.__sundog_method__ = dict(given)
        function.__sundog_options__ = parsed
        return function

    return decorate


class _Core:
    """What a handle and its methods share. Methods are kept by their handle, so they must not keep it:
    a cycle would let the actor live until the collector comes by."""

    __slots__ = ("actor_id", "class_name", "cls", "data", "scope")

    def __init__(self, actor_id: bytes, data: dict[str, Any], scope: ObjectRef[Any] | None) -> None:
        self.actor_id = actor_id
        self.data = data
        self.class_name: str = data["class_name"]
        self.cls: type | None = None  # the plain class, in the process that created the actor
        self.scope = scope  # counted like any ref; None for a handle that does not keep the actor alive

    def __del__(self) -> None:
        if self.scope is not None and engines is not None:
            self.scope = None  # the ref's death is noted first, then whoever reads is told to look
            engine = engines.current()
            if engine is not None and engine.owner.closed is None:
                engine.owner.reactor.wake()


class ActorMethod:
    # A method of an actor; `.remote()` calls it there. Its docstring is the one that the user wrote.

    __slots__ = ("_core", "_fn", "_link", "_name", "_options", "_signature")

    def __init__(self, core: _Core, name: str, options: MethodOptions) -> None:
        self._core = core
        self._name = name
        self._options = options
        self._link: Any = None
        self._fn: Fn | None = None
        self._signature: Signature = core.data["signatures"].get(name) or _ANYTHING

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actor methods cannot be called directly. Use actor.{self._name}.remote(...) instead of "
            f"actor.{self._name}(...)."
        )

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; returns a ref (or several, or a generator)."""
        engine = engines.current()
        link = self._link
        if link is None or engine is None or link.calls.owner is not engine.owner:
            engine, link = self._bind()
        signature = self._signature
        if kwargs or not signature.low <= len(args) <= signature.high:
            signature.check(f"{self._core.class_name}.{self._name}", args, kwargs)
        owner = engine.owner
        fn: Any = self._fn
        task = owner.actors.call(link, fn, args, kwargs)
        link.keep = self._core.scope
        if not link.inflight and task.state == DONE and not link.queue:
            link.keep = None  # answered before we got here
        caller = _getframe(1)
        code, at = caller.f_code, caller.f_lasti
        if at != fn.site_at or code is not fn.site_code:
            call_sites.note(owner.ring, fn, task.id, code, at)
        if fn.one:
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        return owner.tasks.refs_of(task, code, at)

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Call the method with arguments in a list and a dict, and options for this call alone."""
        chosen = self.options(**options) if options else self
        return chosen.remote(*(args or ()), **(kwargs or {}))

    @property
    def __signature__(self) -> Any:
        return self._signature.full()

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return getattr(getattr(self._core.cls, self._name, None), "__doc__", None)

    def __reduce__(self) -> tuple[Any, ...]:
        core = self._core
        return (
            _rebuild_method,
            (_rebuild_handle(core.actor_id, core.data, core.scope), self._name, self._options),
        )

    def _bind(self) -> Any:
        from sundog.api import engine_of_session

        engine = engine_of_session()
        core, data, options = self._core, self._core.data, self._options
        link = engine.owner.actors.link(core.actor_id, core.class_name)
        link.max_pending = data["max_pending_calls"]
        link.out_of_order, link.by_group = data["out_of_order"], bool(data["groups"])
        link.concurrent = data["concurrent"]
        fn = Fn(self._name, f"{core.class_name}.{self._name}")
        returns: Any = options.num_returns
        if returns is None:
            returns = "streaming" if self._name in data["generators"] else 1
        fn.returns = returns
        fn.one = returns == 1
        retries = options.max_task_retries
        fn.max_retries = data["max_task_retries"] if retries is None else retries
        extra: dict[str, Any] = {}
        if returns != 1:
            extra[wire.EXTRA_RETURNS] = returns
        if options.concurrency_group:
            _check_group(core.class_name, self._name, options.concurrency_group, data["groups"])
            extra[wire.EXTRA_GROUP] = options.concurrency_group
        if options.name:
            extra[wire.EXTRA_NAME] = printable(options.name)
        if options.retry_exceptions:
            extra[wire.EXTRA_RETRY] = _retry_wire(options.retry_exceptions)
        limit = options._generator_backpressure_num_objects
        if limit is not None and limit > 0:
            fn.backpressure = limit
            extra[wire.EXTRA_BACKPRESSURE] = limit
        if options.timeout_s or options.queue_timeout_s:
            extra = timeouts.bind(fn, options, extra)
        if not (options.enable_task_events and data["task_events"]):
            extra[wire.EXTRA_HIDDEN] = True
        if (inspect := inspect_of(options)) is not None:
            extra[wire.EXTRA_INSPECT] = inspect
        fn.extra = extra or None
        self._fn, self._link = fn, link
        return engine, link

    def options(self, **overrides: Any) -> ActorMethod:
        """The same method with other options."""
        chosen, core = self._options.merged(**overrides), self._core
        yields = self._name in core.data["generators"]
        check_yields(f"{core.class_name}.{self._name}", chosen.num_returns, yields)
        return _method(core, self._name, chosen)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Out of scope."""
        raise NotImplementedError("bind() is not part of sundog: call .remote() and pass refs instead.")

    def __repr__(self) -> str:
        return f"ActorMethod({self._core.class_name}.{self._name})"


class _DecoratedMethod(ActorMethod):
    # A method whose function has a decorator of its own for how it is called: on this side, not in the actor.

    __slots__ = ("_invoke",)

    def __init__(self, core: _Core, name: str, options: MethodOptions) -> None:
        import pickle

        super().__init__(core, name, options)
        call = super().remote
        self._invoke = pickle.loads(core.data["decorators"][name])(lambda args, kwargs: call(*args, **kwargs))

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, through its decorator."""
        return self._invoke(args, kwargs)


def _method(core: _Core, name: str, options: MethodOptions) -> ActorMethod:
    return (_DecoratedMethod if name in core.data.get("decorators", ()) else ActorMethod)(core, name, options)


def _rebuild_method(handle: ActorHandle, name: str, options: MethodOptions) -> ActorMethod:
    return _method(handle._core, name, options)


def _check_group(class_name: str, method_name: str, group: str, known: tuple[str, ...]) -> None:
    if group not in known:
        raise ValueError(
            f"{class_name}.{method_name}: {class_name} has no concurrency group {group!r}; it has "
            f"{', '.join(map(repr, known)) or 'none'}. Name it in @remote(concurrency_groups={{{group!r}: 2}})."
        )


def _retry_wire(retry: Any) -> Any:
    if isinstance(retry, (list, tuple)):
        return pack_function(tuple(retry))[0]
    return bool(retry)


class ActorHandle:
    """A handle to an actor: call its methods with `.remote()`, pass it to tasks and other actors."""

    def __init__(self, actor_id: bytes, data: dict[str, Any], scope: ObjectRef[Any] | None) -> None:
        self._core = _Core(actor_id, data, scope)

    @property
    def _ray_actor_id(self) -> Any:
        from sundog.public_ids import ActorID

        return ActorID(self._core.actor_id)

    @property
    def _actor_id(self) -> Any:
        return self._ray_actor_id

    def __getattr__(self, name: str) -> ActorMethod:
        if name in _BUILT_IN:
            options = MethodOptions()
        else:
            core = self.__dict__.get("_core")
            if core is None or (name.startswith("__") and name != "__call__"):
                raise AttributeError(name)
            methods: dict[str, MethodOptions] = core.data["methods"]
            found = methods.get(name)
            if found is None:
                raise AttributeError(
                    f"Actor class {core.class_name} has no method {name!r}. Its methods: "
                    f"{', '.join(sorted(methods)) or 'none'}. Attributes of an actor cannot be read from outside: "
                    "write a method that returns them."
                )
            options = found
        bound = _method(self._core, name, options)
        self.__dict__[name] = bound  # the next look-up does not come here
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        core = self._core
        return (_rebuild_handle, (core.actor_id, core.data, core.scope))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._core.actor_id == other._core.actor_id

    def __hash__(self) -> int:
        return hash(self._core.actor_id)

    def __repr__(self) -> str:
        return f"Actor({self._core.data['class_path']}, {self._core.actor_id.hex()})"

    def __dir__(self) -> list[str]:
        return ["__init__", *self._core.data["methods"], *_BUILT_IN]


def _rebuild_handle(actor_id: bytes, data: dict[str, Any], scope: ObjectRef[Any] | None) -> ActorHandle:
    return ActorHandle(actor_id, data, scope)


class ActorClassInheritanceException(TypeError):
    """An actor class was used as a base class."""


class ActorClass:
    """A class whose instances live in processes of their own; `.remote()` makes one."""

    def __init__(self, cls: type, options: ActorOptions) -> None:
        self._cls = cls
        self._options = options
        self._members = _members(cls)
        self._takes = Signature.of(cls.__init__, bound=True)  # type: ignore[misc]
        self._name = printable(cls.__name__)
        self.__name__ = cls.__name__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__
        self.__qualname__ = cls.__qualname__
        self.__ray_actor_class__ = cls

    @property
    def __ray_metadata__(self) -> Any:
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise ActorClassInheritanceException(
            "An actor class cannot be a base class. Inherit from the plain class, and put @remote on the subclass."
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise ActorClassInheritanceException(
            f"Actor class {self._name} cannot be a base class. Inherit from the plain class, and put @remote on the "
            "subclass."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actor class {self._name} cannot be instantiated directly. Use {self._name}.remote(...) instead of "
            f"{self._name}(...)."
        )

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Create an actor; its constructor runs in its own process."""
        return self._create(self._options, args, kwargs)

    def options(self, **overrides: Any) -> ActorClassWithOptions:
        """The same class with other options."""
        return ActorClassWithOptions(self, self._options.merged(**overrides))

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> ActorHandle:
        """Create an actor, with arguments in a list and a dict, and options for this one alone."""
        chosen = self._options.merged(**options) if options else self._options
        return self._create(chosen, tuple(args or ()), dict(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Out of scope."""
        raise NotImplementedError("bind() is not part of sundog: call .remote() and pass handles instead.")

    def _create(self, options: ActorOptions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle:
        from sundog.api import engine_or_init

        self._takes.check(self._name, args, kwargs)
        engine = engine_or_init()
        data = _with_options(self._members, options)
        actor_id, is_new = engine.create_actor(self._cls, self._name, options, data, args, kwargs)
        if not is_new:
            from sundog.api import get_actor

            return get_actor(options.name or "", options.namespace)
        scope: ObjectRef[Any] | None = (
            None if lives_on(options) else ObjectRef(actor_id + RESULT_SUFFIX, None)
        )
        handle = ActorHandle(actor_id, data, scope)
        handle._core.cls = self._cls
        return handle

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_class, (self._cls, self._options))

    def __repr__(self) -> str:
        return f"ActorClass({self._name})"


class ActorClassWithOptions:
    """An actor class with options of its own."""

    def __init__(self, base: ActorClass, options: ActorOptions) -> None:
        self._base = base
        self._options = options

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Create an actor with these options."""
        return self._base._create(self._options, args, kwargs)

    def options(self, **overrides: Any) -> ActorClassWithOptions:
        """The same class with yet other options."""
        return ActorClassWithOptions(self._base, self._options.merged(**overrides))


def _rebuild_class(cls: type, options: ActorOptions) -> ActorClass:
    return ActorClass(cls, options)


_DEFAULT_METHOD = MethodOptions()


def _members(cls: type) -> dict[str, Any]:
    """What a handle has to know of its class: its methods, their options and what they take."""
    import inspect

    methods: dict[str, MethodOptions] = {}
    decorators: dict[str, bytes] = {}
    generators = []
    signatures = {}
    for name, member in inspect.getmembers(cls, callable):
        if name.startswith("__") and name != "__call__":
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
    if isinstance(inspect.getattr_static(cls, "__call__", None), type(None)):
        methods.pop("__call__", None)
    return {
        "class_name": printable(cls.__name__),
        "class_path": printable(cls.__qualname__),
        "methods": methods,
        "generators": frozenset(generators),
        "signatures": signatures,
        "decorators": decorators,
    }


def _with_options(members: dict[str, Any], options: ActorOptions) -> dict[str, Any]:
    return {
        **members,
        "groups": tuple(sorted(options.concurrency_groups or ())),
        "max_task_retries": options.max_task_retries,
        "max_pending_calls": options.max_pending_calls,
        "out_of_order": bool(options.allow_out_of_order_execution),
        "task_events": options.enable_task_events,
    }


def make_actor_class(cls: type, given: dict[str, Any]) -> ActorClass:
    """`@remote` or `@remote(**given)` on a class."""
    options = parse_actor_options(given)
    made = ActorClass(cls, options)
    groups = tuple(sorted(options.concurrency_groups or ()))
    for name, method_options in made._members["methods"].items():
        if method_options.concurrency_group:
            _check_group(cls.__name__, name, method_options.concurrency_group, groups)
    return made


def exit_actor() -> None:
    """End the actor that this method runs in, on purpose; calls that wait for it fail.

    Raises:
        SystemExit: to unwind the method; in an asyncio actor AsyncioActorExit, which a loop's tasks can pass on.
        TypeError: called outside of an actor.
    """
    facts = context.facts
    engine = engines.current()
    if facts.actor_id is None or engine is None or engine.executor is None:
        raise TypeError("exit_actor() ends the actor that calls it, and this is not an actor.")
    engine.executor.leave("exit_actor() was called in it")
    raise engine.executor.exit_error()


def handle_of_current_actor() -> ActorHandle:
    """A handle to the actor that runs here. It does not count: else an actor that keeps it would never end."""
    facts = context.facts
    assert facts.actor_id is not None
    return ActorHandle(facts.actor_id, facts.actor_handle, None)
