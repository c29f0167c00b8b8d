"""The page in a real browser: every view with data, without, during a kill, of an ended session, without its server.

Set `PAGE_SCREENSHOTS` to a folder to keep a picture of each view (docs/images/dashboard was made so).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import sundog
from sundog.dashboard.page.frame import VIEWS
from sundog.observe.sessions import open_session
from sundog.owner import context
from sundog.util.metrics import Counter
from tests.browser.browsers import Browser, browser, needs_browser, serving
from tests.integration.gates import await_true

pytestmark = [needs_browser, pytest.mark.timeout(600)]

TASKS = int(os.environ.get("PAGE_TASKS", "3000"))
PICTURES = os.environ.get("PAGE_SCREENSHOTS", "")


@sundog.remote
def resize(number: int) -> int:
    Counter("resized").inc()
    return number


@sundog.remote
def parse(number: int) -> int:
    print("parsed", number)
    if number % 5 == 0:
        raise ValueError(f"line {number} <b>is bad</b>")
    return number


@sundog.remote(max_retries=0)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@sundog.remote
class Store:
    def add(self, number: int) -> int:
        return number

    def wait(self, path: str) -> None:
        while not os.path.exists(path):
            time.sleep(0.01)


def start() -> str:
    sundog.init(num_cpus=2, log_to_driver=False)
    path = str(context.facts.session["path"])
    await_true(lambda: open_session(path).is_live, "the session is told of")
    return path


def picture(page: Browser, name: str) -> None:
    if PICTURES:
        page.driver.save_screenshot(f"{PICTURES}/{name}.png")


def test_every_view_shows_what_a_busy_session_does(leak_check: Path) -> None:
    path = start()
    gate = str(leak_check / "gate")
    try:
        store = Store.options(name="shelf").remote()  # type: ignore[attr-defined]
        kept = sundog.put(bytes(1 << 20))
        sundog.get([resize.remote(number) for number in range(TASKS)])
        parsed = [parse.remote(number) for number in range(20)]
        sundog.wait(parsed, num_returns=20)
        sundog.get(store.add.remote(1))
        waiting = store.wait.remote(gate)
        with serving(path) as (port, _), browser(port) as page:
            _overview(page)
            _lists(page)
            _timeline(page)
            _reading(page, parsed[7].task_id().hex())
            _keys_and_colours(page)
            _during_a_kill(page)
            assert page.errors() == []
        Path(gate).touch()
        sundog.get(waiting)
        del kept
    finally:
        sundog.shutdown()


def _overview(page: Browser) -> None:
    page.open("/")
    page.await_text(f"{TASKS:,}", "[data-functions]")
    page.await_text("live", "[data-status]")
    page.await_text("parse() failed 4 times", "[data-troubles]")
    page.await_true(lambda: page.run("document.querySelectorAll('canvas').length") == 2, "two charts")
    picture(page, "overview")
    page.click("[data-troubles] a", "parse()")
    page.await_text("because", "[data-story]")
    page.await_text("is bad", "[data-story]")
    assert page.run("document.querySelectorAll('[data-story] b').length") == 0  # a user's text is no HTML
    picture(page, "why")


def _lists(page: Browser) -> None:
    page.open("/tasks?text=parse&state=failed")
    page.await_text("4 rows", "[data-count]")
    page.await_text("FAILED", "table")
    page.open("/tasks")
    page.await_text(f"{TASKS + 23:,} rows", "[data-count]")
    # The second page is fetched from the server, and has an address of its own.
    next_page = "document.querySelector('.q-table__bottom button:nth-last-of-type(2):not([disabled])')"
    page.await_true(lambda: page.run(f"({next_page}.click(), true)"), "the button of the next page")
    page.await_true(lambda: "page=2" in page.driver.current_url, "the address of page 2")
    page.await_text(f"51-100 of {TASKS + 23}", ".q-table__bottom")
    picture(page, "tasks")
    for path, text in (
        ("/actors", "shelf"),
        ("/objects", "1.0 MiB"),
        ("/workers", "Store.wait"),
        ("/nodes", "ALIVE"),
        ("/jobs", "RUNNING"),
        ("/events", "actor alive"),
    ):
        page.open(path)
        page.await_text(text, "table")
        picture(page, path.strip("/"))


def _timeline(page: Browser) -> None:
    page.open("/timeline")
    page.await_text("ended tasks", "[data-shown]")
    page.click("button", "everything")
    page.await_text("bars for", "[data-shown]")
    page.await_true(lambda: page.run("document.querySelectorAll('canvas').length") == 1, "the chart")
    picture(page, "timeline")
    before = page.text("[data-shown]")
    wheel = (
        "const c = document.querySelector('canvas').closest('.nicegui-echart'), r = c.getBoundingClientRect();"
        "c.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, clientX: r.left + 300, clientY: r.top + 40,"
        "bubbles: true}))"
    )

    def is_finer() -> bool:
        page.driver.execute_script(wheel)
        return page.text("[data-shown]") != before

    page.await_true(is_finer, "a finer window after the wheel")
    page.open("/charts")
    page.await_text("resized", "[data-own]")
    # One more for the program's own metric, as soon as it has a history.
    page.await_true(lambda: page.run("document.querySelectorAll('canvas').length") >= 6, "six charts")
    picture(page, "metrics")


def _reading(page: Browser, task: str) -> None:
    page.open(f"/logs?id={task}")
    page.await_text("parsed 7", "[data-log]")
    page.open(f"/logs?id={task}&text=PARSED 7")
    page.await_true(lambda: page.text("[data-log]").split("\n")[:1] == ["parsed 7"], "a search in a log")
    picture(page, "logs")
    page.open("/stacks?text=Store.wait")
    page.await_text("time.sleep", "[data-stacks]")
    picture(page, "stacks")
    page.open("/debugger")
    page.await_text("No task is paused", "[data-paused]")
    page.open("/profiles")
    page.await_text("None yet", "[data-profiles]")
    page.open("/doctor")
    page.await_true(lambda: page.text("[data-report]").strip(), "a report")


def _keys_and_colours(page: Browser) -> None:
    page.open("/actors")
    page.await_text("shelf", "table")
    is_dark = "document.body.classList.contains('body--dark')"
    before = page.run(is_dark)
    _press(page, "d")
    page.await_true(lambda: page.run(is_dark) is not before, "other colours")
    _press(page, "t")
    page.await_true(lambda: page.driver.current_url.endswith("/tasks"), "the key t opens tasks")
    page.await_true(lambda: page.run(is_dark) is not before, "the colours stay")
    page.await_text("rows", "[data-count]")
    picture(page, "dark" if not before else "light")
    assert page.run("document.documentElement.scrollWidth <= 1280")


def _press(page: Browser, key: str) -> None:
    from selenium.webdriver.common.by import By

    # The page hears keys once its script is connected.
    page.await_true(lambda: page.run("!!(window.socket && window.socket.connected)"), "a connection")
    page.driver.find_element(By.TAG_NAME, "body").send_keys(key)


def _during_a_kill(page: Browser) -> None:
    page.open("/")
    page.await_text("live", "[data-status]")
    with pytest.raises(sundog.exceptions.WorkerCrashedError):
        sundog.get(crash.remote())
    page.await_text("crash", "[data-functions]")
    page.await_text("died under its task", "[data-troubles]")
    picture(page, "kill")
    page.open("/events?text=SIGKILL")
    page.await_text("worker ended", "table")


def test_an_empty_session_says_so_and_a_lost_server_is_told(leak_check: Path) -> None:
    path = start()
    try:
        with serving(path) as (port, process), browser(port) as page:
            page.open("/")
            page.await_text("No task has run yet", "[data-functions]")
            picture(page, "rest")
            for view, text in (
                ("/tasks", "No task yet"),
                ("/actors", "No actor yet"),
                ("/objects", "No process holds"),
                ("/timeline", "No task has ended yet"),
                ("/charts", "None. A program makes them"),
                ("/why", "No trouble is found"),
            ):
                page.open(view)
                page.await_text(text)
            process.kill()
            page.await_text("Connection lost")
            picture(page, "lost")
    finally:
        sundog.shutdown()


def test_an_ended_session_is_shown_from_its_records(leak_check: Path) -> None:
    path = start()
    sundog.wait([parse.remote(number) for number in range(10)], num_returns=10)
    sundog.shutdown()
    with serving(path) as (port, _), browser(port) as page:
        page.open("/")
        page.await_text("has ended", "[data-ended]")
        page.await_text("parse", "[data-functions]")
        page.await_text("parse() failed 2 times", "[data-troubles]")
        page.open("/tasks?state=failed")
        page.await_text("2 rows", "[data-count]")
        page.open("/stacks")
        page.await_text("no process is left", "[data-stacks]")
        page.open("/timeline")
        page.await_text("10 ended tasks", "[data-shown]")
        for view in VIEWS:  # each opens, and none shows an error
            page.open(view.path)
            page.await_text("has ended", "[data-ended]")
        assert page.errors() == []
