"""The picture of the headline figures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.picture import COLOURS, Axis, axis_for, draw
from benchmarks.results import Results
from benchmarks.sampling import Reading

SVG = "{http://www.w3.org/2000/svg}"


def sample() -> Results:
    results = Results()
    for system, value in {"sundog": 9000.0, "ray": 300.0, "raw": 18000.0}.items():
        results.add(system, "tasks", [Reading("single client tasks sync", "/s", value)])
    return results


def dots(svg: str, system: str) -> list[float]:
    """Where the dots of a system lie, without the one in the legend (always the first)."""
    circles = [
        c for c in ElementTree.fromstring(svg).iter(f"{SVG}circle") if c.get("fill") == COLOURS[system]
    ]
    return [float(circle.get("cx", "nan")) for circle in circles[1:]]


def test_the_picture_is_well_formed_and_names_its_rows() -> None:
    svg = draw(sample())
    assert svg is not None
    texts = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert "tasks, one at a time" in texts
    assert "30 ×" in texts


def test_dots_stand_where_the_logarithm_of_the_ratio_says() -> None:
    svg = draw(sample())
    assert svg is not None
    axis = axis_for([30.0, 60.0])
    assert dots(svg, "sundog") == [pytest.approx(axis.x(30.0), abs=0.1)]
    assert dots(svg, "raw") == [pytest.approx(axis.x(60.0), abs=0.1)]


def test_the_axis_covers_whole_decades_and_one() -> None:
    assert axis_for([30.0, 60.0]) == Axis(0, 2)
    assert axis_for([0.5, 3.0]) == Axis(-1, 1)
    assert axis_for([]) == Axis(0, 1)


def test_without_a_shared_figure_there_is_no_picture() -> None:
    results = Results()
    results.add("ray", "tasks", [Reading("single client tasks sync", "/s", 1.0)])
    assert draw(results) is None


def test_figures_without_a_headline_are_not_drawn() -> None:
    results = sample()
    for system in ("sundog", "ray"):
        results.add(system, "growth", [Reading("get 1 k refs", "µs/ref", 1.0)])
    assert draw(results) == draw(sample())
