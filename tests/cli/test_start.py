"""`sundog start`: Ray's flags become settings, and the message says how to join and how to stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import Result

from sundog.cli import exits
from tests.cli.conftest import FakeInfo, FakeSessions

Sundog = Callable[..., Result]


def test_the_message_says_how_to_join_and_how_to_stop(sundog: Sundog, sessions: FakeSessions) -> None:
    result = sundog("start", "--head")
    assert result.exit_code == 0
    assert 'init(address="auto")' in result.output
    assert "sundog stop --session session-1" in result.output
    assert "node pid 4242" in result.output
    assert "/somewhere/session-1" in result.output


def test_a_second_head_is_told_of_the_first(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo("first", node_pid=7, cpus=8.0), FakeInfo("of-a-program", persistent=False)]
    result = sundog("start", "--head")
    assert result.exit_code == 0
    assert "session first (node pid 7) is running too, with 8 CPUs" in result.stderr
    assert 'init(address="first")' in result.stderr and "sundog stop --session first" in result.stderr
    assert "of-a-program" not in result.output


def test_without_options_the_machine_decides(sundog: Sundog, sessions: FakeSessions) -> None:
    sundog("start", "--head")
    assert sessions.started == [
        {
            "num_cpus": None,
            "num_gpus": None,
            "resources": {},
            "object_store_memory": None,
            "object_spilling_directory": None,
            "temp_dir": None,
            "head": None,
            "labels": {},
            "block": False,
            "system_config": {},
        }
    ]


def test_every_option_reaches_the_session(sundog: Sundog, sessions: FakeSessions) -> None:
    options = (
        '--num-cpus 3 --num-gpus 1 --resources {"disk":2,"seat":0.5} --object-store-memory 1000000 '
        "--object-spilling-directory /mnt/spill --temp-dir /somewhere "
        "--include-dashboard false --labels zone=a,disk=ssd "
        "--disable-usage-stats"
    )
    assert sundog("start", "--head", *options.split()).exit_code == 0
    assert sessions.started == [
        {
            "num_cpus": 3,
            "num_gpus": 1,
            "resources": {"disk": 2.0, "seat": 0.5},
            "object_store_memory": 1_000_000,
            "object_spilling_directory": "/mnt/spill",
            "temp_dir": "/somewhere",
            "head": None,
            "labels": {"zone": "a", "disk": "ssd"},
            "block": False,
            "system_config": {},
        }
    ]


def test_the_options_of_the_dashboard_reach_its_socket(sundog: Sundog, sessions: FakeSessions) -> None:
    done = sundog("start", "--head", "--include-dashboard", "yes", "--dashboard-port", "0")
    (asked,) = sessions.started
    info = asked["head"].info
    assert info.host == "127.0.0.1" and info.page in done.stdout
    assert asked["head"].listener.fileno() == -1  # closed: the node has it


def test_the_memory_options_become_settings_and_the_named_ones_win(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    named = "--memory 5000000 --memory-usage-threshold 0.9 --memory-monitor-refresh-ms 0"
    options = [*named.split(), "--system-config", '{"memory_usage_threshold": 0.5, "spin_us": 0}']
    assert sundog("start", "--head", *options).exit_code == 0
    assert sessions.started[0]["resources"] == {"memory": 5_000_000.0}
    assert sessions.started[0]["system_config"] == {
        "memory_usage_threshold": 0.9,
        "memory_monitor_refresh_ms": 0,
        "spin_us": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "sundog start --head"),
        (["--head", "--address", "h:1"], "give one of them"),
        (["--head", "--resources", "disk=2"], "not JSON"),
        (["--head", "--resources", "[1]"], "a JSON object is needed"),
        (["--head", "--resources", '{"disk": "two"}'], "must be a number, not 'two'"),
        (["--head", "--resources", '{"disk": true}'], "must be a number, not True"),
        (["--head", "--resources", '{"disk": -1}'], "must be zero or more, not -1"),
        (["--head", "--resources", '{"disk": NaN}'], "must be zero or more, not nan"),
        (["--head", "--resources", '{"CPU": 2}'], "--num-cpus 2"),
        (["--head", "--system-config", "spin_us=0"], "not JSON"),
        (["--head", "--system-config", "[1]"], "a JSON object is needed"),
        (["--head", "--memory-usage-threshold", "95"], "95.0 is not in the range"),
        (["--head", "--labels", "zone"], "'zone' is not key=value"),
        (["--head", "--num-cpus", "-1"], "-1 is not in the range"),
        (["--head", "--object-store-memory", "0"], "0 is not in the range"),
        (["--head", "--dashboard-port", "65536"], "65536 is not in the range"),
    ],
)
def test_a_wrong_command_line_is_refused_and_starts_nothing(
    sundog: Sundog, sessions: FakeSessions, arguments: list[str], said: str
) -> None:
    result = sundog("start", *arguments)
    assert result.exit_code == exits.USAGE
    # click breaks long lines to the width of the terminal and may frame them.
    assert said in " ".join(result.output.replace("│", " ").split())
    assert sessions.started == []


def test_blocking_ends_with_a_failure_when_the_session_does(sundog: Sundog, sessions: FakeSessions) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as node:
        assert node.stdin is not None
        sessions.on_start = FakeInfo(node_pid=node.pid)
        node.stdin.close()
        result = sundog("start", "--head", "--block")
    assert result.exit_code == exits.FAILED
    assert "session-1 ended while this command was watching it" in result.stderr
    assert sessions.stopped == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_blocking_stops_the_session(
    sundog: Sundog, sessions: FakeSessions, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    handlers = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    really_open = os.pidfd_open
    opened: list[int] = []

    def open_then_signal(pid: int) -> int:
        opened.append(really_open(pid))
        signal.raise_signal(number)
        return opened[0]

    sessions.on_start = FakeInfo(node_pid=os.getpid())
    monkeypatch.setattr(os, "pidfd_open", open_then_signal)
    result = sundog("start", "--head", "--block")
    for descriptor in opened:
        os.close(descriptor)
    assert result.exit_code == 0
    assert sessions.stopped == [("session-1", False, 10.0)]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers


def test_blocking_on_a_session_that_is_gone_already_says_so(sundog: Sundog, sessions: FakeSessions) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as node:
        node.wait()
        sessions.on_start = FakeInfo(node_pid=node.pid)
    assert sundog("start", "--head", "--block").exit_code == exits.FAILED
