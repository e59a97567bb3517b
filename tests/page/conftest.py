import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from provider import Provider
from serving import Serving

for name in list(os.environ):
    if name.upper().endswith("_PROXY"):
        del os.environ[name]

SCREENSHOTS = Path(__file__).parents[2] / "target" / "page"
# Chromium looks for nothing but what a test asks of it.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-precise-memory-info",
]
PHONE = {"width": 360, "height": 740}

expect.set_options(timeout=10_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def start(provider: Provider, tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Starts a gateway, for tests that want other settings than the usual ones."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Serving:
            serving = Serving(provider.url, tmp_path, **settings)
            stack.callback(serving.kill)
            serving.start()
            return serving

        yield start


@pytest.fixture
def serving(start: Callable[..., Serving]) -> Serving:
    return start()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page. What the browser complains of fails the test, but for a gateway that is away."""
    complaints: list[str] = []
    with ExitStack() as stack:

        def visit(url: str, **settings: Any) -> Page:
            settings.setdefault("viewport", {"width": 1360, "height": 900})
            context = browser.new_context(**settings)
            stack.callback(context.close)
            page = context.new_page()

            def complain(message: ConsoleMessage) -> None:
                if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
                    complaints.append(message.text)

            page.on("console", complain)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(url)
            return page

        yield visit
        assert not complaints


@pytest.fixture
def keep() -> Callable[[Page, str], None]:
    """Keeps a picture of the whole page."""

    def keep(page: Page, name: str) -> None:
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return keep
