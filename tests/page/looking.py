"""How the tests look at the page."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from openai_replies import ROLE, TEXT, broken_chat_stream, chat_stream, error
from provider import Ending

WHOLE = chat_stream(TEXT)
DOWN = error(503, "busy", "server_error")
# Output has begun, and nothing more comes until the client leaves.
OPEN_END = broken_chat_stream([ROLE, {"content": "Hello"}], Ending.SILENT)


def row(page: Page, candidate: str, model: str = "main") -> Locator:
    group = page.locator("#models tbody").filter(has=page.locator(".group .name", has_text=re.compile(f"^{re.escape(model)}$")))
    return group.locator("tr:not(.group)").filter(has=page.locator("th .name", has_text=re.compile(f"^{re.escape(candidate)}$")))


def state(page: Page, candidate: str, model: str = "main") -> Locator:
    return row(page, candidate, model).locator(".chip-text")


def tile(page: Page, label: str) -> Locator:
    return page.locator(f'.tile[data-key="{label}"]')


def lines(page: Page) -> Locator:
    return page.locator("#feed li")


def live(page: Page) -> None:
    expect(page.locator("#link-text")).to_have_text("Live")


def act(page: Page, candidate: str, choice: str, model: str = "main") -> None:
    """Does something to a candidate, as an operator does."""
    row(page, candidate, model).get_by_role("button").click()
    page.get_by_role("radio", name=choice).check()
    page.get_by_role("button", name=choice).click()
    expect(page.get_by_role("dialog")).to_be_hidden()


def weight(page: Page) -> dict[str, float]:
    """What the page weighs once nothing is left to be collected: nodes, listeners and bytes of the heap."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    by_name = {metric["name"]: metric["value"] for metric in metrics}
    return {name: by_name[name] for name in ("Nodes", "JSEventListeners", "JSHeapUsedSize")}
