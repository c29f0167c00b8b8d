"""The zygote learns packages that workers import again and again; not those that cannot be forked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.wire.requests import Status
from tests.integration import drivers
from tests.integration.gates import await_true

GET_S = 120
PACKAGES = {
    "plainly": "import os\nMADE_BY = os.getpid()\nHOME = os.environ.get('LEARNED_TEST', '')\n",
    "threaded": (
        "import os, threading, time\nMADE_BY = os.getpid()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    ),
}


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "site-packages"
    for name, text in PACKAGES.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(text, encoding="utf-8")
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))


def _looker(ray: ModuleType, **options: Any) -> Any:
    @ray.remote(num_cpus=0, **options)
    class Looker:
        def has(self, name: str) -> bool:
            return name in sys.modules

        def made_here(self, name: str) -> bool:
            return bool(os.getpid() == __import__(name).MADE_BY)

        def home(self) -> str:
            return str(__import__("plainly").HOME)

    return Looker.remote()


def _learned(ray: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = ray.api.control(Status())["learned"]
    return found


def test_new_workers_have_what_others_imported_unless_it_cannot_be_forked(
    ray_session: Callable[..., ModuleType], installed: Path
) -> None:
    ray = ray_session(num_cpus=2)
    for name in PACKAGES:  # one after the other: each is a lesson of its own
        first = [_looker(ray) for _ in range(2)]
        assert ray.get([each.made_here.remote(name) for each in first], timeout=GET_S) == [True, True]
        await_true(lambda name=name: name in _learned(ray)["due"], f"the node to hear of {name}")
        next_one = _looker(ray)  # more are started, so it is worth learning
        assert ray.get(next_one.has.remote(name), timeout=GET_S) is False
        await_true(lambda name=name: name in str({**_learned(ray), "due": ()}), f"word of {name}")
    told = _learned(ray)
    assert told["packages"] == ["plainly"]
    assert told["refused"] == {"threaded": "its import starts threads"}
    fresh = _looker(ray)
    assert ray.get(fresh.has.remote("plainly"), timeout=GET_S) is True
    assert ray.get(fresh.made_here.remote("plainly"), timeout=GET_S) is False
    assert ray.get(fresh.has.remote("threaded"), timeout=GET_S) is False
    # Its variables must be there when the module is imported: a new zygote begins with nothing.
    other = _looker(ray, runtime_env={"env_vars": {"LEARNED_TEST": "mine"}})
    assert ray.get(other.home.remote(), timeout=GET_S) == "mine"
    assert _learned(ray)["packages"] == []


def test_nothing_is_learned_when_the_setting_is_off(
    ray_session: Callable[..., ModuleType], installed: Path
) -> None:
    ray = ray_session(num_cpus=2, _system_config={"learn_imports": False})
    first = [_looker(ray) for _ in range(2)]
    assert ray.get([each.made_here.remote("plainly") for each in first], timeout=GET_S) == [True, True]
    assert _learned(ray)["why_not"] == "learn_imports is off"
    assert ray.get(_looker(ray).has.remote("plainly"), timeout=GET_S) is False


# In a program of its own: one that has imported sundog.serve wants asyncio in all workers.
ACTORS = """
import os, sys

ray.init(num_cpus=2, _system_config={"learn_imports": sys.argv[1] == "True"})

@ray.remote(num_cpus=0)
class Waiter:
    async def wait(self):
        return os.getpid()

@ray.remote(num_cpus=0)
class Looker:
    def has(self, name):
        return name in sys.modules

waiters = [Waiter.remote() for _ in range(4)]
print(len(set(ray.get([waiter.wait.remote() for waiter in waiters]))))
lookers = [Looker.remote() for _ in range(3)]  # workers that were idle before may take the first ones
print([ray.get(looker.has.remote("asyncio")) for looker in lookers][-1])
ray.shutdown()
"""


@pytest.mark.parametrize("learns", [True, False])
def test_after_two_asyncio_actors_new_workers_have_asyncio_loaded(learns: bool) -> None:
    with drivers.running(ACTORS, str(learns)) as driver:
        assert driver.rest() == ["4", str(learns)]


# Under the name of a package that is loaded before the first workers are forked, if the driver's functions name it.
FIRST = """
import os, sys

sys.path.insert(0, sys.argv[1])
import skimage

ray.init(num_cpus=2)

@ray.remote
def look():
    return os.getpid(), skimage.MADE_BY

@ray.remote(num_cpus=0)
class Holder:
    def made_by(self):
        return skimage.MADE_BY

found = dict(ray.get([look.remote() for _ in range(20)]))
found[0] = ray.get(Holder.remote().made_by.remote())
own = [pid == made_by for pid, made_by in found.items() if pid]
print("own" if all(own) else "shared" if not any(own) and len(set(found.values())) == 1 else f"mixed: {found}")
from sundog.wire.requests import Status
told = ray.api.control(Status())["learned"]
print(told["packages"], told["refused"].get("skimage"), told["why_not"])
ray.shutdown()
"""
IN_ZYGOTE = "'sundog.worker.zygote' in sys.modules and sys.modules['sundog.engines'].current() is None"
BODIES = {
    "safe": ("", ["shared", "['skimage'] None "]),
    "threaded": (
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
        ["own", "[] its import starts threads "],
    ),
    "deadly": (
        f"os.kill(os.getpid(), 9) if {IN_ZYGOTE} else None\n",
        ["own", "[] None a zygote that loaded packages died"],
    ),
    "failing": (
        f"1 / 0 if {IN_ZYGOTE} else None\n",
        ["own", "[] its import fails outside of a worker "],
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_first_workers_have_what_the_functions_of_the_driver_name_if_that_can_be_forked(
    tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "site-packages"
    (folder / "skimage").mkdir(parents=True)
    body, expected = BODIES[kind]
    text = f"import os, sys, threading, time\nMADE_BY = os.getpid()\n{body}"
    (folder / "skimage" / "__init__.py").write_text(text, encoding="utf-8")
    with drivers.running(FIRST, str(folder)) as driver:
        assert driver.rest() == expected


def test_workers_are_forked_at_once_if_nothing_is_to_be_learned(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / "skimage").mkdir(parents=True)
    (folder / "skimage" / "__init__.py").write_text("import os\nMADE_BY = os.getpid()\n", encoding="utf-8")
    program = FIRST.replace("num_cpus=2)", "num_cpus=2, _system_config={'learn_imports': False})", 1)
    with drivers.running(program, str(folder)) as driver:
        assert driver.rest() == ["own", "[] None learn_imports is off"]
