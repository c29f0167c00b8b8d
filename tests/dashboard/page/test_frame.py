"""Views have different keys and addresses."""

from __future__ import annotations

from sundog.dashboard.page.frame import CSS, VIEWS, address


def test_no_two_views_share_a_key_or_an_address() -> None:
    assert len({view.key for view in VIEWS} | {"d", "/", "?"}) == len(VIEWS) + 3
    assert len({view.path for view in VIEWS}) == len(VIEWS)


def test_what_is_empty_is_left_out_of_an_address() -> None:
    assert address("/tasks") == "/tasks"
    assert address("/tasks", text="", page=2, state=None) == "/tasks?page=2"
    assert address("/why", id="a&b=c") == "/why?id=a%26b%3Dc"


def test_the_style_knows_light_and_dark() -> None:
    assert "body--dark" in CSS and "--bg" in CSS
