"""The names of `sundog.util`, and the small modules behind them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from types import ModuleType

import pytest

from sundog import util
from sundog.util import annotations as markers
from sundog.util import debug


def test_every_exported_name_exists() -> None:
    for name in util.__all__:
        assert getattr(util, name) is not None
    assert set(util.__all__) <= set(dir(util))
    with pytest.raises(AttributeError, match="no_such_name"):
        util.no_such_name  # noqa: B018


def test_accelerators_have_names() -> None:
    assert util.accelerators.NVIDIA_TESLA_V100 == "V100"
    assert util.accelerators.NVIDIA_TESLA_A100 == util.accelerators.NVIDIA_A100


def test_importing_util_loads_none_of_its_parts() -> None:
    code = (
        "import sys, sundog.util\n"
        "heavy = ['queue', 'multiprocessing', 'iter', 'state', 'joblib', 'metrics', 'actor_pool']\n"
        "print([name for name in heavy if 'sundog.util.' + name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_log_once_answers_true_once_per_key() -> None:
    debug.reset_log_once()
    assert [util.log_once("a"), util.log_once("a"), util.log_once("b")] == [True, False, True]
    debug.reset_log_once("a")
    assert util.log_once("a")
    assert not util.log_once("b")
    debug.reset_log_once()


def test_log_once_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_once", debug._Once())
    util.disable_log_once_globally()
    assert not util.log_once("never")


def test_periodic_logging_lets_keys_speak_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_once", debug._Once())
    now_s = [1000.0]
    monkeypatch.setattr("sundog.util.debug.time.monotonic", lambda: now_s[0])
    util.enable_periodic_logging()
    assert util.log_once("again")
    now_s[0] += debug.PERIOD_S + 1
    assert not util.log_once("again")
    assert util.log_once("again")


def test_named_actors_are_listed_by_namespace(ray: ModuleType) -> None:
    class Named:
        def ready(self) -> None: ...

    named = ray.remote(num_cpus=0)(Named)
    here = named.options(name="here").remote()
    there = named.options(name="there", namespace="elsewhere").remote()
    ray.get([here.ready.remote(), there.ready.remote()])
    assert util.list_named_actors() == ["here"]
    entries = util.list_named_actors(all_namespaces=True)
    assert {"name": "there", "namespace": "elsewhere"} in entries
    assert sorted(entry["name"] for entry in entries) == ["here", "there"]
    ray.kill(here)
    ray.kill(there)


def test_the_node_knows_its_address(ray: ModuleType) -> None:
    address = util.get_node_ip_address()
    assert address == ray.nodes()[0]["NodeManagerAddress"]
    assert isinstance(util.get_node_instance_id(), str)


class Sealed:
    """Cannot be pickled by itself: it holds a lock of the event loop's kind."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.loop = asyncio.new_event_loop()
        self.loop.close()

    def __reduce__(self) -> str:
        raise TypeError("sealed")


def test_a_registered_serializer_is_used_until_it_is_deregistered(ray: ModuleType) -> None:
    util.register_serializer(
        Sealed, serializer=lambda s: s.value, deserializer=lambda value: ("opened", value)
    )
    try:
        assert ray.get(ray.put(Sealed(3))) == ("opened", 3)
    finally:
        util.deregister_serializer(Sealed)
    with pytest.raises(TypeError):
        ray.put(Sealed(3))
    util.deregister_serializer(Sealed)


def test_inspect_serializability_is_the_runtimes() -> None:
    from sundog.serialize.inspect import inspect_serializability
    from sundog.util.check_serialize import inspect_serializability as same

    assert util.inspect_serializability is inspect_serializability is same


def test_annotations_mark_without_changing() -> None:
    @markers.PublicAPI
    def plain(x: int) -> int:
        return x + 1

    def added(x: int) -> int:
        return x + 2

    staged = markers.PublicAPI(stability="beta")(added)
    assert (plain(1), staged(1)) == (2, 3)
    with pytest.raises(ValueError):
        markers.DeveloperAPI(stability="beta")


def test_deprecated_names_warn_only_when_asked_to() -> None:
    @markers.Deprecated
    def quiet() -> int:
        return 1

    @markers.Deprecated(message="Use the new one.", warning=True)
    def loud() -> int:
        return 2

    @markers.Deprecated(warning=True)
    class Old:
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quiet() == 1
    with pytest.warns(markers.RayDeprecationWarning, match="Use the new one"):
        assert loud() == 2
    with pytest.warns(markers.RayDeprecationWarning, match="Old"):
        Old()
