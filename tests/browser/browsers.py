"""A real browser for tests: Debian's Chromium, driven by Selenium. Where there is none, tests are skipped and say so.

Owns the browser's life, and waiting for what a page shows. `make browser` installs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

PATIENCE_S = 180.0
_TRIES = 3
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs Debian's chromium and chromium-driver: make browser installs them, as root",
)


class Browser:
    """One window of 1280 × 900."""

    def __init__(self, driver: Any, port: int) -> None:
        self.driver = driver
        self.port = port

    def open(self, path: str) -> None:
        """Go to an address of the page."""
        self.driver.get(f"http://127.0.0.1:{self.port}{path}")

    def text(self, selector: str = "body") -> str:
        """What a person reads there; "" if it is not there."""
        script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''"
        return str(self.driver.execute_script(script, selector))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.driver.execute_script(f"return {script}")

    def click(self, selector: str, text: str) -> None:
        """Click what has a text, when it is there."""
        script = (
            "const e = [...document.querySelectorAll(arguments[0])].find(e => e.innerText.includes(arguments[1]));"
            "if (e) e.click(); return !!e"
        )
        self.await_true(lambda: self.driver.execute_script(script, selector, text), f"{text!r} to click")

    def await_text(self, text: str, selector: str = "body") -> None:
        """Wait until a text is shown."""
        seen = [""]

        def is_there() -> bool:
            seen[0] = self.text(selector)
            return text in seen[0]

        try:
            self.await_true(is_there, f"{text!r} in {selector}")
        except AssertionError as error:
            error.add_note(f"{selector} at {self.driver.current_url} says: {seen[0][:1000]}")
            raise

    def await_true(self, question: Callable[[], object], what: str) -> None:
        """Wait for something of the page; what a question asks of may just be drawn anew, which is a no."""
        from selenium.common.exceptions import JavascriptException, StaleElementReferenceException

        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(JavascriptException, StaleElementReferenceException):
                if question():
                    return
            assert time.monotonic() < deadline, f"{what} was not seen; the page says: {self.text()[:3000]}"
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """What went wrong in the page's own scripts; a connection that had to be made again is not among it."""
        entries = self.driver.get_log("browser")
        return [
            entry["message"]
            for entry in entries
            if entry["source"] == "javascript" and entry["level"] == "SEVERE"
        ]


@contextmanager
def browser(port: int) -> Iterator[Browser]:
    """A browser that ends with the test."""
    with tempfile.TemporaryDirectory(prefix="sundog-browser-", ignore_cleanup_errors=True) as folder:
        driver = _start(folder)
        driver.set_page_load_timeout(PATIENCE_S)
        try:
            yield Browser(driver, port)
        finally:
            driver.quit()


def _start(folder: str) -> Any:
    """Start it; on a machine that is slow at this moment, its own bounds on time may end that: then once more.

    Chromium leaves folders where temporary files go: that is `folder`, which the caller removes.
    """
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",  # it runs as root where tests do
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,1000",
        "--force-device-scale-factor=1",
        "--disable-background-networking",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for left in reversed(range(_TRIES)):
        service = Service(str(DRIVER), env={**os.environ, "TMPDIR": folder})
        try:
            return webdriver.Chrome(options=options, service=service)
        except WebDriverException:
            service.stop()
            if not left:
                raise
    raise AssertionError("not reached")


@contextmanager
def serving(session_path: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The page of a session, served by a process of its own: its port, and the process."""
    command = [sys.executable, "-m", "tests.browser.server", session_path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
