"""`import ray` gives sundog: one module object under two names, and honest refusals."""

import importlib
import importlib.util
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from sundog import compat


@pytest.fixture
def as_ray() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


# Each exists from the first release on; what lies deeper is covered by the examples.
MODULES = [
    "",
    ".exceptions",
    ".internal",
    ".types",
    ".util",
    ".util.queue",
    ".util.actor_pool",
    ".util.scheduling_strategies",
]


@pytest.mark.usefixtures("as_ray")
@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_the_same_object_under_both_names(module: str) -> None:
    assert load("ray" + module) is load("sundog" + module)
    assert sys.modules["ray" + module] is sys.modules["sundog" + module]


@pytest.mark.usefixtures("as_ray")
@pytest.mark.parametrize("module", MODULES)
def test_an_aliased_module_keeps_its_own_name_and_spec(module: str) -> None:
    aliased = load("ray" + module)
    assert aliased.__name__ == "sundog" + module
    assert aliased.__spec__ is not None
    assert aliased.__spec__.name == "sundog" + module


@pytest.mark.usefixtures("as_ray")
def test_a_decorator_is_not_hidden_by_the_module_of_its_name() -> None:
    namespace: dict[str, object] = {}
    exec(
        "from ray import serve\nfrom ray.serve.deployment import Application\n"
        "@serve.deployment\ndef hello(): return 'hello'\n"
        "assert isinstance(hello.bind(), Application)",
        namespace,
    )
    assert pickle.loads(pickle.dumps(namespace["serve"])) is load("sundog.serve")


@pytest.mark.usefixtures("as_ray")
def test_a_from_import_gives_the_same_classes() -> None:
    namespace: dict[str, object] = {}
    exec("from ray.exceptions import RayError\nimport ray.exceptions as errors", namespace)
    assert namespace["RayError"] is load("sundog.exceptions").RayError
    assert namespace["errors"] is load("sundog.exceptions")


@pytest.mark.usefixtures("as_ray")
def test_the_pickler_that_ray_carries_is_the_one_that_sundog_uses() -> None:
    namespace: dict[str, object] = {}
    exec("import ray.cloudpickle\nfrom ray import cloudpickle", namespace)
    assert namespace["cloudpickle"] is sys.modules["ray.cloudpickle"] is load("sundog.cloudpickle")
    assert load("sundog.cloudpickle").dumps is load("cloudpickle").dumps


@pytest.mark.usefixtures("as_ray")
def test_an_error_pickled_under_the_one_name_loads_under_the_other() -> None:
    error = load("ray.exceptions").RayError("gone")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is load("sundog.exceptions").RayError
    assert type(pickle.loads(b"cray.exceptions\nRayError\n(S'x'\ntR.")) is type(copy)


@pytest.mark.usefixtures("as_ray")
def test_a_reload_finds_the_module_by_its_own_name() -> None:
    # One without classes: a reload makes them anew, and what other tests imported would be strangers to it.
    aliased = load("ray.util.named_actors")
    assert importlib.reload(aliased) is aliased


@pytest.mark.usefixtures("as_ray")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ray.data", "dataset library"),
        ("ray.train", "training library"),
        ("ray.train.torch", "training library"),
        ("ray.tune", "tuning library"),
        ("ray.rllib", "reinforcement-learning library"),
        ("ray._private.worker", "private to Ray"),
        ("ray.no_such_thing", "no counterpart"),
        ("ray.util.no_such_thing", "no counterpart"),
        ("ray.exceptions.below_a_module", "not a package"),
        ("ray.state", "no counterpart"),
        ("ray.cli", "no counterpart"),
    ],
)
def test_a_module_that_sundog_does_not_have_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=reason) as caught:
        load(name)
    # Its parent may be the one that was refused: that is where an import begins.
    assert caught.value.name is not None
    assert name.startswith(caught.value.name)
    assert repr(caught.value.name) in str(caught.value)
    assert name not in sys.modules


@pytest.mark.usefixtures("as_ray")
def test_a_from_import_of_a_missing_library_says_which_one_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"ray\.data.*dataset library"):
        exec("from ray import data")


@pytest.mark.usefixtures("as_ray")
def test_a_program_that_tries_and_falls_back_still_can() -> None:
    namespace: dict[str, object] = {}
    exec("try:\n import ray.tune\nexcept ImportError:\n tune = None", namespace)
    assert namespace["tune"] is None


@pytest.mark.usefixtures("as_ray")
def test_names_that_merely_begin_like_ray_are_left_alone() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'rayon_of_nothing'$"):
        load("rayon_of_nothing")


def test_installing_twice_is_the_same_as_once() -> None:
    before = list(sys.meta_path)
    compat.install()
    compat.install()
    assert compat.installed()
    compat.uninstall()
    assert not compat.installed()
    assert sys.meta_path == before
    compat.uninstall()
    assert sys.meta_path == before


def test_uninstalling_frees_the_name() -> None:
    compat.install()
    load("ray.util.queue")
    compat.uninstall()
    assert [name for name in sys.modules if name == "ray" or name.startswith("ray.")] == []
    assert "sundog.util.queue" in sys.modules


def test_another_ray_that_is_already_imported_is_not_pushed_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("ray")
    other.__file__ = "/somewhere/ray/__init__.py"
    monkeypatch.setitem(sys.modules, "ray", other)
    with pytest.raises(ImportError, match="already imported it from /somewhere/ray") as caught:
        compat.install()
    assert caught.value.path == other.__file__
    assert not compat.installed()
    assert sys.modules["ray"] is other


@pytest.mark.usefixtures("as_ray")
def test_threads_that_import_at_once_get_one_module() -> None:
    for name in [name for name in sys.modules if name.startswith(("ray.util", "sundog.util.actor_pool"))]:
        del sys.modules[name]
    barrier = threading.Barrier(8)
    seen: list[ModuleType] = []

    def import_it(name: str) -> None:
        barrier.wait()
        seen.append(load(name))

    names = ["ray.util.actor_pool", "sundog.util.actor_pool"] * 4
    threads = [threading.Thread(target=import_it, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(map(id, seen))) == 1


def test_switching_it_on_imports_nothing_of_the_runtime() -> None:
    code = (
        "import sundog.compat, sys; sundog.compat.install()\n"
        "heavy = ('sundog.owner', 'sundog.engines', 'ray')\n"
        "print(sorted(m for m in sys.modules if m.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
