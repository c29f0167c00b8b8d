"""The board in the package, and the file for Prometheus."""

from __future__ import annotations

import json
import re
from importlib import resources

import yaml

from sundog.dashboard import figures, grafana
from sundog.dashboard.facts import FactTail
from sundog.dashboard.figures import NodeReader
from tests.dashboard.test_figures import make_look


def test_the_board_in_the_package_is_the_one_that_the_code_makes() -> None:
    text = resources.files("sundog.dashboard").joinpath(grafana.BOARD).read_text()
    assert text == grafana.board_text(), "run: python -m sundog.dashboard.grafana"
    assert json.loads(text)["title"] == "sundog"


def test_every_query_of_the_board_asks_for_figures_that_there_are(tmp_path: object) -> None:
    look = make_look()
    look.node = NodeReader(str(tmp_path)).read()
    known = set()
    for family in figures.families(look, FactTail(str(tmp_path))):
        known.add(family.name + "_total" * (family.kind == "counter"))
    asked = {name for row in grafana.ROWS.values() for panel in row for query, _ in panel.queries
             for name in re.findall(r"sundog_\w+", query)}  # fmt: skip
    assert asked and asked <= known


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(grafana.board_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_prometheus_is_told_where_the_token_is() -> None:
    text = grafana.prometheus_config("127.0.0.1:8265", "/tmp/a b/token")
    [job] = yaml.safe_load(text)["scrape_configs"]
    assert job["authorization"] == {"credentials_file": "/tmp/a b/token"}
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8265"]}]
