"""Addresses of metrics, and the files for Prometheus."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import yaml

from sundog.dashboard.routes import write_files
from sundog.engines.heads import HeadInfo
from tests.head.conftest import Ask, ask, ended  # noqa: F401


def test_metrics_of_an_ended_session_are_there(ask: Ask) -> None:  # noqa: F811
    answer = ask("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith(
        "text/plain; version=0.0.4"
    )
    assert "sundog_up 0.0" in answer.text


def test_the_board_can_be_fetched(ask: Ask) -> None:  # noqa: F811
    assert json.loads(ask("/api/grafana/board").text)["title"] == "sundog"


def test_prometheus_finds_the_token_in_a_file_of_its_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    write_files(str(tmp_path), HeadInfo("127.0.0.1", 8265, "secret"))
    write_files(str(tmp_path), HeadInfo("127.0.0.1", 8266, "newer"))
    [job] = yaml.safe_load((tmp_path / "metrics/prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8266"]}]
    token = Path(job["authorization"]["credentials_file"])
    assert token.read_text() == "newer" and stat.S_IMODE(token.stat().st_mode) == 0o600
