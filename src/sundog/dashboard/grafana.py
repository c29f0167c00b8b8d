"""A Grafana board for sundog, and the files that make Prometheus find a session.

Owns the panels of the board (`grafana_board.json` beside this file; `python -m sundog.dashboard.grafana` writes it) and
the text of `prometheus.yml`. Pure: values in, JSON and text out.
"""

from __future__ import annotations

import json
import os

from sundog.plain import NamedTuple

BOARD = "grafana_board.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 12, 8


class Panel(NamedTuple):
    """One chart: its title, the unit of its axis, and what is drawn: query and legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False


ROWS: dict[str, tuple[Panel, ...]] = {
    "What runs": (
        Panel(
            "Tasks by state",
            "short",
            (("sum by (state) (sundog_tasks{state!~'FINISHED|FAILED'})", "{{state}}"),),
            True,
        ),
        Panel(
            "Tasks ended in a second, by function",
            "ops",
            (
                (
                    "topk(10, sum by (function) (rate(sundog_function_runs_total[$__rate_interval])))",
                    "{{function}}",
                ),
            ),
            True,
        ),
        Panel(
            "Failures in a second, by function",
            "ops",
            (
                (
                    "topk(10, sum by (function) (rate(sundog_function_failures_total[$__rate_interval])))",
                    "{{function}}",
                ),
            ),
        ),
        Panel("Actors by state", "short", (("sum by (state) (sundog_actors)", "{{state}}"),), True),
        Panel(
            "Cores used, by function",
            "short",
            (
                (
                    "topk(10, sum by (function) (rate(sundog_function_cpu_seconds_total[$__rate_interval])))",
                    "{{function}}",
                ),
            ),
            True,
        ),
        Panel(
            "Time of one attempt, 95th percentile",
            "s",
            (("topk(10, sundog_function_duration_seconds{stat='p95'})", "{{function}}"),),
        ),
    ),
    "Memory": (
        Panel(
            "Machine",
            "bytes",
            (("sundog_node_memory_used_bytes", "used"), ("sundog_node_memory_total_bytes", "total")),
        ),
        Panel(
            "Object store",
            "bytes",
            (
                ("sundog_store_used_bytes", "in memory"),
                ("sundog_spilled_bytes", "spilled"),
                ("sundog_store_limit_bytes", "limit"),
            ),
        ),
        Panel(
            "Own memory, by process",
            "bytes",
            (("sundog_process_own_bytes", "{{kind}} {{actor}} {{pid}}"),),
            True,
        ),
        Panel(
            "Peak memory of one attempt, by function",
            "bytes",
            (("topk(10, sundog_function_peak_memory_bytes{stat='max'})", "{{function}}"),),
        ),
        Panel(
            "Spilled and restored in a second",
            "Bps",
            (
                ("rate(sundog_spill_bytes_total[$__rate_interval])", "spilled"),
                ("rate(sundog_restore_bytes_total[$__rate_interval])", "restored"),
            ),
        ),
        Panel("Workers that ended, by cause", "short", (("sundog_process_deaths_total", "{{cause}}"),)),
    ),
    "Machine": (
        Panel("Processor", "percentunit", (("sundog_node_cpu_share", "busy"),)),
        Panel(
            "Cores used, by process",
            "short",
            (("sundog_process_cpu_share", "{{kind}} {{actor}} {{pid}}"),),
            True,
        ),
        Panel("CPUs by use", "short", (("sundog_resources{name='CPU'}", "{{state}}"),), True),
        Panel("Free disk", "bytes", (("sundog_node_disk_free_bytes", "free"),)),
    ),
}


def board() -> dict[str, object]:
    """The board as Grafana imports it."""
    panels: list[dict[str, object]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": 2 * _WIDTH, "h": 1},
            }
        )
        y += 1
        for number, panel in enumerate(row):
            x = number % 2 * _WIDTH
            panels.append(_panel(panel, len(panels) + 1, x, y + number // 2 * _HEIGHT))
        y += (len(row) + 1) // 2 * _HEIGHT
    return {
        "uid": "sundog",
        "title": "sundog",
        "tags": ["sundog"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
            ]
        },
        "panels": panels,
    }


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, object]:
    custom: dict[str, object] = {
        "fillOpacity": 25 if panel.stacked else 5,
        "lineWidth": 1,
        "showPoints": "never",
    }
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expr, "legendFormat": legend, "datasource": _SOURCE}
            for index, (expr, legend) in enumerate(panel.queries)
        ],
    }


def board_text() -> str:
    """The board as the text of its file."""
    return json.dumps(board(), indent=1) + "\n"


def prometheus_config(address: str, token_file: str) -> str:
    """The text of a `prometheus.yml` that scrapes one session.

    Args:
        address: host and port that serve `/metrics`.
        token_file: the file with the token.
    """
    return (
        "scrape_configs:\n"
        "  - job_name: sundog\n"
        "    scrape_interval: 5s\n"
        "    metrics_path: /metrics\n"
        "    authorization:\n"
        f"      credentials_file: {json.dumps(token_file)}\n"
        "    static_configs:\n"
        f"      - targets: [{json.dumps(address)}]\n"
    )


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(__file__), BOARD), "w", encoding="utf-8") as file:
        file.write(board_text())
