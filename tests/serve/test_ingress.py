"""`@serve.ingress`: which classes it takes, how methods become handlers, and the life of the app."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sundog import serve
from sundog.serve.exceptions import BackPressureError, DeploymentUnavailableError
from sundog.serve.ingress import AsgiIngress, Lifespan, start_app
from tests.serve.fakes import enter_replica, replica_context

fastapi = pytest.importorskip("fastapi")


async def plain_app(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI app that knows no lifespan."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])


def unhook(cls: Any) -> None:
    """As a replica does at its end: the interpreter calls no coroutine of the user's."""
    cls.__del__ = lambda _self: None


class FakeApp:
    """An ASGI app that answers the lifespan messages as it is told, and notes them."""

    def __init__(self, answer: str = "complete", message: str = "", raises: bool = False) -> None:
        self.answer, self.message, self.raises = answer, message, raises
        self.heard: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            kind = (await receive())["type"]
            self.heard.append(kind)
            scope["state"]["stock"] = 3
            row = {"type": f"{kind}.{self.answer}"}
            await send({**row, "message": self.message} if self.message else row)
            if self.raises:
                raise RuntimeError("the app cannot start")
            if kind == "lifespan.shutdown":
                return


# ---------------------------------------------------------------------- the app's life
def test_an_app_hears_of_its_start_and_its_end() -> None:
    async def scene() -> None:
        app = FakeApp()
        made = Lifespan(cast(Any, app))
        await made.startup()
        assert app.heard == ["lifespan.startup"] and made.state == {"stock": 3}
        await made.shutdown()
        await made.shutdown()
        assert app.heard == ["lifespan.startup", "lifespan.shutdown"]

    asyncio.run(scene())


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize(("message", "told"), [("no stock", "no stock"), ("", "the app gave no reason")])
def test_an_app_that_cannot_start_says_why(message: str, told: str, raises: bool) -> None:
    async def scene() -> None:
        made = Lifespan(cast(Any, FakeApp("failed", message, raises)))
        with pytest.raises(RuntimeError, match=f"ASGI lifespan startup failed: {told}"):
            await made.startup()
        assert made._task is not None
        made._task.cancel()

    asyncio.run(scene())


def test_an_app_without_a_lifespan_starts_and_ends_all_the_same() -> None:
    async def scene() -> None:
        made = Lifespan(plain_app)
        await made.startup()
        await made.shutdown()

    asyncio.run(scene())


def test_an_app_that_is_built_in_the_replica_is_built_there_by_a_coroutine_too() -> None:
    class Built(AsgiIngress):
        async def __serve_build_asgi_app__(self) -> Any:
            return plain_app

    class Unbuilt(AsgiIngress):
        def __serve_build_asgi_app__(self) -> Any:
            return None

    async def scene() -> None:
        made = Built()
        await start_app(made, lambda *_: None)
        assert made.app is plain_app and made.docs_path is None
        with pytest.raises(TypeError, match="`__serve_build_asgi_app__` must return an ASGI app"):
            await start_app(Unbuilt(), lambda *_: None)

    asyncio.run(scene())


def test_an_app_answers_the_errors_of_serve_as_the_replica_says() -> None:
    async def scene() -> None:
        made = AsgiIngress()
        app = made._asgi_app = fastapi.FastAPI()

        def refuse(*_: object) -> None:
            pass

        await start_app(made, refuse)
        assert app.exception_handlers[BackPressureError] is refuse
        assert app.exception_handlers[DeploymentUnavailableError] is refuse
        assert made.docs_path == "/docs" and made._lifespan is not None
        await made._lifespan.shutdown()

    asyncio.run(scene())


# ---------------------------------------------------------------------- the decorator
def test_the_class_keeps_its_name_and_its_constructor_runs_in_the_replica() -> None:
    @serve.ingress(plain_app)
    class Shop:
        """Sells tea."""

        price: int

        def __init__(self, price: int) -> None:
            self.price = price

    async def scene() -> Any:
        made = Shop.__new__(Shop)
        await cast(Any, made).__init__(4)
        unhook(Shop)
        return made

    made = asyncio.run(scene())
    assert (Shop.__name__, Shop.__doc__, Shop.__annotations__) == ("Shop", "Sells tea.", {"price": "int"})
    assert made.price == 4 and isinstance(made, AsgiIngress)
    assert made.app.__name__ == "plain_app"  # a coroutine function is an app, and no function that makes one


def test_a_function_as_app_is_called_in_the_replica() -> None:
    made: Any = serve.ingress(lambda: ["made here"])(cast(Any, None))

    async def scene() -> object:
        found: Any = made.__new__(made)
        await found.__init__("any", argument="will do")
        unhook(made)
        return found.app

    assert asyncio.run(scene()) == ["made here"] and made.__name__ == "ASGIIngressDeployment"


def test_the_end_of_a_replica_ends_the_app_and_then_the_users_object() -> None:
    told: list[str] = []

    class FakeLifespan:
        async def shutdown(self) -> None:
            told.append("app")

    @serve.ingress(plain_app)
    class Shop:
        async def __del__(self) -> None:
            told.append("shop")

    async def scene() -> None:
        made: Any = Shop.__new__(Shop)
        made._lifespan = FakeLifespan()
        await made.__del__()
        unhook(Shop)

    asyncio.run(scene())
    assert told == ["app", "shop"]


@pytest.mark.parametrize(
    ("app", "wrong", "told"),
    [
        (plain_app, "a text", "@serve.ingress decorates a class, not 'a text'"),
        (
            plain_app,
            type("Called", (), {"__call__": print}),
            "Called has `__call__`, but .* Remove `__call__`",
        ),
        (None, type("Bare", (), {}), "Bare has no app: .* Pass one, or define `__serve_build_asgi_app__`"),
    ],
)
def test_what_cannot_be_an_ingress_is_refused_with_the_reason(app: Any, wrong: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        serve.ingress(app)(wrong)


def test_an_app_that_cannot_be_pickled_is_refused_where_it_is_given() -> None:
    app = fastapi.FastAPI()
    app.state.items = (each for each in "tea")
    with pytest.raises(TypeError, match="Failed to serialize the ASGI app: "):
        serve.ingress(app)(type("Shop", (), {}))


def test_a_subclass_with_a_plain_constructor_learns_how_to_write_it() -> None:
    base: Any = serve.ingress(plain_app)(type("Shop", (), {}))
    with pytest.raises(TypeError, match=r"Corner\.__init__ must be `async def`.*await super\(\)\.__init__"):
        type("Corner", (base,), {"__init__": lambda self: None})


# ---------------------------------------------------------------------- methods as handlers
def answer(app: Any, path: str) -> tuple[int, Any]:
    """What an app answers, without a server."""
    found: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        found.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"size=2"}
    asyncio.run(app({**scope, "http_version": "1.1", "scheme": "http", "root_path": ""}, receive, send))
    return found[0]["status"], found[1]["body"]


def test_methods_are_handlers_with_the_object_of_the_replica_also_below_an_included_router(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, router = fastapi.FastAPI(), fastapi.APIRouter(prefix="/inner")

    class Base:
        stock = 3

        @app.get("/inherited")
        async def inherited(self) -> int:
            return self.stock

    class Shop(Base):
        @app.get("/buy/{kind}")
        async def buy(self, kind: str, size: int) -> dict[str, object]:
            return {"kind": kind, "size": size, "stock": self.stock}

        @router.get("/deep")
        async def deep(self) -> int:
            return self.stock + 1

    @app.get("/free")
    async def free() -> str:
        return "free"

    app.include_router(router, prefix="/outer")
    serve.ingress(app)(Shop)
    enter_replica(monkeypatch, replica_context(servable=Shop()))
    assert answer(app, "/buy/tea") == (200, b'{"kind":"tea","size":2,"stock":3}')
    assert answer(app, "/inherited") == (200, b"3")
    assert answer(app, "/outer/inner/deep") == (200, b"4")
    assert answer(app, "/free") == (200, b'"free"')
    assert answer(app, "/none")[0] == 404


def test_an_app_of_two_classes_answers_with_the_handlers_of_the_one_that_is_deployed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = fastapi.FastAPI()

    class Tea:
        @app.get("/tea")
        async def tea(self) -> str:
            return "tea"

    class Milk:
        @app.get("/milk")
        async def milk(self) -> str:
            return "milk"

    serve.ingress(app)(Tea)
    serve.ingress(app)(Milk)
    enter_replica(monkeypatch, replica_context(servable=Milk()))
    assert answer(app, "/milk") == (200, b'"milk"') and answer(app, "/tea")[0] == 404
