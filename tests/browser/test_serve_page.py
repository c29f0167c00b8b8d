"""Serve's view in a real browser: deployments, replicas, requests, errors, a canary, and what stays afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

import sundog
from sundog import serve
from tests.browser.browsers import Browser, browser, needs_browser, serving
from tests.browser.test_page import picture, start
from tests.integration.serve import services

pytestmark = [needs_browser, pytest.mark.timeout(600)]


def deployed(version: str) -> serve.Application:
    @serve.deployment(
        name="Price",
        num_replicas=2,
        rolling_update_config={"canary": 0.5},
        ray_actor_options={"num_cpus": 0},
    )
    class Price:
        def __call__(self, request: object) -> str:
            if "bad" in str(request.url):  # type: ignore[attr-defined]
                raise ValueError("no price for this")
            return version

    return Price.bind()  # type: ignore[attr-defined, no-any-return]


def test_serve_is_shown_while_it_runs_and_afterwards(leak_check: Path) -> None:
    path = start()
    try:
        http = services.start()
        serve.run(deployed("one"), name="shop", route_prefix="/shop")
        for _ in range(60):
            assert services.get("/shop", http)[1] == "one"
        for _ in range(3):
            assert services.get("/shop?bad=1", http)[0] == 500
        with serving(path) as (port, _), browser(port) as page:
            _running(page)
            serve.run(deployed("two"), name="shop", route_prefix="/shop")
            page.await_text("gets 50 % of the requests", "[data-deployments]")
            page.await_text("(old)", ".q-table__middle")
            picture(page, "serve")
            assert page.errors() == []
        serve.shutdown()
    finally:
        sundog.shutdown()
    with serving(path) as (port, _), browser(port) as page:
        page.open("/serve")
        page.await_text("Serve was shut down", "[data-serve-cards]")
        page.await_text("63", "[data-deployments]")
        assert page.errors() == []


def _running(page: Browser) -> None:
    page.open("/serve")
    page.await_text("shop", "[data-deployments]")
    page.await_text("HEALTHY", "[data-deployments]")
    page.await_text("2 of 2", "[data-serve-cards]")
    page.await_text("63", "[data-serve-cards]")
    page.await_text("2 rows", "[data-count]")
    page.await_text("RUNNING", ".q-table__middle")
    page.await_text("deploy", "[data-revisions]")
    page.await_true(lambda: page.run("document.querySelectorAll('canvas').length") == 3, "three charts")
    assert page.run("document.documentElement.scrollWidth <= 1280")
    # A row leads to the replica's log.
    page.click("td a", "log")
    page.await_true(lambda: "file=serve" in page.driver.current_url, "the address of a log")
    page.await_text("line", "[data-lines]")
    page.open("/serve")
    page.await_text("shop", "[data-deployments]")


def test_a_session_without_serve_says_how_it_starts(leak_check: Path) -> None:
    path = start()
    try:
        with serving(path) as (port, _), browser(port) as page:
            page.open("/serve")
            page.await_text("Serve does not run in this session", "[data-serve-cards]")
            page.await_true(
                lambda: not page.run("document.querySelector('.sd-table')?.offsetHeight"), "no table"
            )
    finally:
        sundog.shutdown()
