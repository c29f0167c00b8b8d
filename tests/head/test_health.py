"""Whether somebody is there, and who."""

from __future__ import annotations

import sundog
from sundog.observe.sessions import Opened
from tests.head.conftest import Ask


def test_the_version_names_the_interface_the_session_and_ourselves(ask: Ask, ended: Opened) -> None:
    found = ask("/api/version").json()
    assert found["ray_version"].startswith("2.60") and int(found["version"]) >= 4
    assert (found["session_name"], found["sundog_version"]) == (ended.name, sundog.__version__)


def test_health_is_told_as_ray_tells_it(ask: Ask) -> None:
    for path in ("/api/healthz", "/api/gcs_healthz", "/api/local_raylet_healthz"):
        assert ask(path).text == "success"


def test_a_client_can_ask_whether_its_token_is_right(ask: Ask) -> None:
    assert ask("/api/authenticate").status_code == 200
    assert ask("/api/authenticate", headers={"authorization": "Bearer wrong"}).status_code == 403
    assert ask("/api/authentication_mode").json() == {"authentication_mode": "token"}
