"""Debian's chromium, driven as a person would: pages from files, offline, with everything they ask for noted."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil
import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_LOCAL = ("file:", "data:", "blob:", "about:")
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever is asked for, nothing can leave the machine
)
_PATIENCE_SECONDS = 10.0
_PATIENCE_MILLISECONDS = 15_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, with a profile of its own that is gone afterwards; without one on this machine a skip."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("there is no chromium to open the page with: on Debian, apt install chromium")
    before, profiles = _descendants(), set(_profiles())
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=[*_ARGUMENTS, *sandbox])
        try:
            browser.new_page().close()  # what the browser starts with its first page is there before a test begins
            yield browser
        finally:
            browser.close()
    _until_gone(before)
    assert set(_profiles()) == profiles, "the browser left a profile behind"


@dataclass
class Visit:
    """A page that is open, what it asked for and what it complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def outward(self) -> list[str]:
        """Requests that would have left the machine."""
        return [url for url in self.requests if not url.startswith(_LOCAL)]

    def note(self, request: Request) -> None:
        self.requests.append(request.url)


@contextmanager
def visit(
    browser: Browser, path: Path, *, width: int = 1280, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Visit]:
    """The page in a window of its own, loaded; when it is closed, so are the processes that drew it."""
    before = _descendants()
    context = browser.new_context(
        offline=True,
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(_PATIENCE_MILLISECONDS)
    seen = Visit(context.new_page())
    context.on("request", seen.note)
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("console", lambda said: seen.complaints.append(said.text) if said.type == "error" else None)
    try:
        seen.page.goto(path.resolve().as_uri(), wait_until="load")
        yield seen
    finally:
        context.close()
        _until_gone(before)


def _until_gone(before: set[int]) -> None:
    """Processes of a page or a browser end a moment after it is closed."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while left := _descendants() - before:
        assert time.monotonic() < deadline, f"processes of the browser are left: {left}"
        time.sleep(0.02)


def _descendants() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _profiles() -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob("playwright*")
