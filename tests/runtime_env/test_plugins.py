"""Plug-ins for `runtime_env`: loading, order, sharing between workers, removal, failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog import config
from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import RuntimeEnv, normalize, plugins

MODULE = """
import os
from sundog.runtime_env.plugin import RuntimeEnvPlugin

def note(*words):
    with open(os.environ["NOTES"], "a") as file:
        print(*words, file=file)

class Data(RuntimeEnvPlugin):
    name = "data"
    @staticmethod
    def validate(env):
        if env["data"] == "bad":
            raise ValueError("no such data")
    def get_uris(self, env):
        return ["data://" + each for each in env["data"].split("+")]
    async def create(self, uri, env, context, logger):
        note("create", uri)
        logger.info("made %s", uri)
        return 600 << 20
    def modify_context(self, uris, env, context, logger):
        context.env_vars["ORDER"] = context.env_vars.get("ORDER", "") + "d"
        context.env_vars["DATA"] = ",".join(uris)
    def delete_uri(self, uri, logger):
        note("delete", uri)
        return 600 << 20

class First(RuntimeEnvPlugin):
    name = "first"
    priority = 1
    async def create(self, uri, env, context, logger):
        note("create first", uri, env["first"])
    def modify_context(self, uris, env, context, logger):
        context.env_vars["ORDER"] = context.env_vars.get("ORDER", "") + "f"
        if env["first"] == "command":
            context.command_prefix.append("nice")

class Plain:
    name = "plain"
    async def create(self, uri, env, context, logger):
        import asyncio
        await asyncio.sleep(3600)
"""
ALL = json.dumps([{"class": f"plug_ins_of_a_test.{name}"} for name in ("Data", "First", "Plain")])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "plug_ins_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("RAY_RUNTIME_ENV_PLUGINS", ALL)
    monkeypatch.setattr(plugins, "PAUSE_S", 0.0)
    yield tmp_path
    sys.modules.pop("plug_ins_of_a_test", None)
    for descriptor in plugins._held:
        os.close(descriptor)
    plugins._held.clear()


def set_up(here: Path, **fields: Any) -> dict[str, str]:
    env = normalize(fields, session_dir=str(here / "session"))
    return plugins.set_up(env.plugins, env.as_runtime_env(), env.key, env.plugin_dir, 600)


def notes(here: Path) -> list[str]:
    return (here / "notes").read_text().splitlines() if (here / "notes").exists() else []


def worker_of(here: Path, **fields: Any) -> subprocess.Popen[str]:
    """A process that sets the environment up as a worker does, says what it got, and lives until its input ends."""
    env = normalize(fields, session_dir=str(here / "session"))
    script = (
        "import sys, os\nfrom sundog.runtime_env import normal\n"
        "env = normal.NormalEnv(**eval(sys.argv[1]))\nenv.apply_in_worker()\n"
        "print(os.environ['DATA'], flush=True)\nsys.stdin.read()"
    )
    words = repr({name: getattr(env, name) for name in env.__slots__})
    path = os.pathsep.join([str(here), str(Path(config.__file__).parents[1])])
    return subprocess.Popen(
        [sys.executable, "-c", script, words],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_plug_ins_run_in_the_order_of_their_priority(here: Path) -> None:
    found = set_up(here, data="a", first=1, env_vars={"A": "1"})
    assert found == {"A": "1", "ORDER": "fd", "DATA": "data://a"}
    assert notes(here) == ["create first None 1", "create data://a"]


def test_the_variable_may_give_another_priority(here: Path) -> None:
    first = {"class": "plug_ins_of_a_test.First", "priority": 90}
    assert [each.name for each in plugins.load(json.dumps([first, *json.loads(ALL)[::2]]))] == [
        "data",
        "plain",
        "first",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("0", "list of objects"),
        ('[{"class": "sundog.runtime_env.plugin.RuntimeEnvPlugin"}]', "attribute `name`"),
        ('["x"]', "an entry is an object"),
        ('[{"class": "no_such_module.X"}]', "cannot be imported"),
        ('[{"class": "plug_ins_of_a_test.Data", "priority": 101}]', "from 0 to 100"),
        ('[{"class": "plug_ins_of_a_test.Data"}, {"class": "plug_ins_of_a_test.Data"}]', "two plug-ins"),
    ],
)
def test_a_variable_that_cannot_be_used_says_what_is_wrong(here: Path, text: str, says: str) -> None:
    with pytest.raises(RuntimeEnvSetupError, match=says):
        plugins.load(text)


def test_what_a_uri_names_is_made_once_for_all_environments_that_share_it(here: Path) -> None:
    set_up(here, data="a+b")
    set_up(here, data="b+c")
    assert notes(here) == ["create data://a", "create data://b", "create data://c"]


def test_an_environment_is_made_again_when_no_worker_of_it_is_left(here: Path) -> None:
    first = worker_of(here, data="a", first=1)
    assert first.stdout is not None and first.stdin is not None
    assert first.stdout.readline() == "data://a\n"
    second = worker_of(here, data="a", first=1)
    assert second.stdout is not None
    assert second.stdout.readline() == "data://a\n"
    assert notes(here).count("create first None 1") == 1
    for each in (first, second):
        each.communicate(timeout=120)
    set_up(here, data="a", first=1)
    assert notes(here) == ["create first None 1", "create data://a", "create first None 1"]


def test_what_nobody_uses_is_removed_when_the_plug_in_has_too_much(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_RUNTIME_ENV_DATA_CACHE_SIZE_GB", "1")
    worker = worker_of(here, data="a")
    assert worker.stdout is not None
    worker.stdout.readline()
    set_up(here, data="b")
    assert "delete data://a" not in notes(here)  # the worker lives
    worker.communicate(timeout=120)
    set_up(here, data="c")
    assert notes(here)[-1] == "delete data://a"


def test_a_refused_value_and_a_changed_command_fail_with_the_reason(here: Path) -> None:
    with pytest.raises(RuntimeEnvSetupError, match="ValueError: no such data"):
        set_up(here, data="bad")
    with pytest.raises(RuntimeEnvSetupError, match="changed command_prefix"):
        set_up(here, first="command")
    with pytest.raises(RuntimeEnvSetupError, match="'other', but no plug-in handles"):
        set_up(here, other=1)


def test_a_plug_in_that_takes_too_long_is_ended_and_one_without_the_base_class_is_taken(here: Path) -> None:
    env = normalize({"plain": 1}, session_dir=str(here / "session"))
    with pytest.raises(RuntimeEnvSetupError, match="setup_timeout_seconds=0"):
        plugins.set_up(env.plugins, env.as_runtime_env(), env.key, env.plugin_dir, 0)


def test_fields_of_plug_ins_are_part_of_the_environment(here: Path) -> None:
    one, other = ({"data": value} for value in ("a", "b"))
    keys = {normalize(each, session_dir=str(here)).key for each in (one, other)}
    assert len(keys) == 2
    assert RuntimeEnv(data="a").plugins() == [("data", "a")]
    with pytest.raises(TypeError, match="a value that JSON can hold"):
        RuntimeEnv(data=object())


def test_without_plug_ins_an_unknown_field_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_RUNTIME_ENV_PLUGINS", raising=False)
    with pytest.raises(ValueError, match="no field 'data'"):
        RuntimeEnv(data="a")
