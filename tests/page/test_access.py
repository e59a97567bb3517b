"""For everyone: by keyboard, for screen readers, in light and dark, on a phone, without motion."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from conftest import PHONE
from looking import DOWN, OPEN_END, WHOLE, act, live, row, state
from provider import Provider
from serving import Serving

Visit = Callable[..., Page]
Keep = Callable[[Page, str], None]

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone-light": {"color_scheme": "light", "viewport": PHONE},
    "phone-dark": {"color_scheme": "dark", "viewport": PHONE},
}


def complaints(page: Page) -> list[str]:
    violations = Axe().run(page).response["violations"]
    return [f"{found['impact']} {found['id']}: {node['target']}" for found in violations for node in found["nodes"]]


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(look: str, serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(OPEN_END)
    provider.play(DOWN, DOWN, DOWN, DOWN, WHOLE, model="second")
    page = visit(serving.page, **LOOKS[look])
    live(page)
    with serving.stream():
        expect(page.locator("#requests tbody tr")).to_have_count(1)
        act(page, "primary/first", "Drain the candidate")
        for _ in range(4):
            serving.ask()
        act(page, "primary/third", "Drain the candidate", "alone")
        expect(state(page, "spare/second")).to_have_text("Open")
        page.get_by_text("Figures as a table").click()
        assert complaints(page) == []
        keep(page, f"look-{look}")
        row(page, "primary/first").get_by_role("button").click()
        page.get_by_role("radio", name="Open the circuit").check()
        assert complaints(page) == []
        keep(page, f"look-{look}-dialog")
        page.keyboard.press("Escape")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    serving.kill()
    expect(page.locator("#away")).to_be_visible()
    assert complaints(page) == []


@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_finds_nothing_in_the_login(look: str, start: Callable[..., Serving], visit: Visit, monkeypatch) -> None:
    monkeypatch.setenv("ADMIN_KEY", "secret")
    page = visit(start(admin_more='key_env = "ADMIN_KEY"').page, **LOOKS[look])
    expect(page.get_by_label("Key", exact=True)).to_be_visible()
    assert complaints(page) == []


def test_everything_can_be_done_by_keyboard(serving: Serving, visit: Visit) -> None:
    page = visit(serving.page)
    live(page)

    def focused() -> str:
        return page.evaluate("""() => {
            const it = document.activeElement;
            return it.getAttribute("aria-label") || it.id || it.textContent.trim();
        }""")

    # Every stop of a tour by Tab, each of them to be seen.
    stops: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement === document.body"):
            break
        stops.append(focused())
        outline = page.evaluate("""() => {
            const style = getComputedStyle(document.activeElement);
            return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
        }""")
        assert outline, f"the focus on {stops[-1]} cannot be seen"
    assert stops[0] == "Skip to the status"
    for expected in (
        "theme",
        "model",
        "Figures as a table",
        "Actions for primary/first of main",
        "Actions for spare/second of main",
        "Actions for primary/third of alone",
        "kind",
        "pause",
    ):
        assert expected in stops, stops
    # From the top again: the link leads past the header.
    page.reload()
    live(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    while focused() != "Actions for primary/first of main":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    # Into the choices, down to the last, and on to the button.
    for _ in range(4):
        if page.evaluate("() => document.activeElement.type === 'radio'"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name="Drain the candidate")).to_be_checked()
    while page.evaluate("() => document.activeElement.id") != "act-confirm":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(state(page, "primary/first")).to_have_text("Drained")
    expect(row(page, "primary/first").get_by_role("button")).to_be_focused()
    # The focus stays where it is, whatever is drawn meanwhile.
    page.wait_for_timeout(2_500)
    expect(row(page, "primary/first").get_by_role("button")).to_be_focused()


def test_structure_and_text_for_screen_readers(serving: Serving, provider: Provider, visit: Visit) -> None:
    provider.play(WHOLE)
    page = visit(serving.page)
    live(page)
    assert serving.ask() == 200
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("Stanchion")
    for region in ("Models and candidates", "In flight", "Queue", "Figures"):
        expect(page.get_by_role("region", name=region, exact=True)).to_have_count(1)
    table = page.get_by_role("table", name="Models and candidates")
    expect(table.get_by_role("columnheader", name="Circuit")).to_have_count(1)
    expect(table.get_by_role("rowheader", name="primary/first")).to_have_count(1)
    chart = page.get_by_role("img", name="Requests in the last five minutes, in steps")
    expect(chart).to_have_attribute("aria-label", "Requests in the last five minutes, in steps of 5 seconds: lowest 0 requests, highest 1 request, latest 1 request")
    expect(row(page, "primary/first").get_by_role("img")).to_have_attribute("aria-label", "1 request in the last five minutes, 0 errors")
    page.get_by_text("Figures as a table").click()
    expect(page.locator("#figures tr").first).to_contain_text("0 %")
    expect(page.locator("#figures tr")).to_have_count(5)


def test_what_is_read_out_is_little(serving: Serving, provider: Provider, visit: Visit) -> None:
    provider.play(WHOLE)
    page = visit(serving.page)
    live(page)
    page.evaluate("""() => {
        globalThis.spoken = [];
        const say = document.querySelector("#say");
        new MutationObserver(() => spoken.push(say.textContent)).observe(say, { childList: true, characterData: true, subtree: true });
    }""")
    # What goes well is not talked of, and nothing else on the page is read out by itself.
    for _ in range(10):
        assert serving.ask() == 200
    page.wait_for_timeout(2_500)
    assert page.evaluate("() => spoken") == []
    assert page.locator("[aria-live]").count() == 1
    act(page, "primary/first", "Open the circuit")
    page.wait_for_function("() => spoken.length > 0")
    assert "opened the circuit of primary/first" in page.evaluate("() => spoken.join(' ')")
    page.wait_for_timeout(5_000)
    assert len(page.evaluate("() => spoken")) <= 2


def test_the_theme_is_the_systems_or_what_was_chosen(serving: Serving, visit: Visit) -> None:
    page = visit(serving.page, color_scheme="dark")
    live(page)

    def ground() -> str:
        return page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")

    dark = ground()
    page.get_by_label("Theme").select_option("Light")
    light = ground()
    assert light != dark
    page.reload()
    live(page)
    assert ground() == light
    page.get_by_label("Theme").select_option("System")
    assert ground() == dark


def test_who_wants_no_motion_gets_none(serving: Serving, visit: Visit) -> None:
    moving = """() => document.getAnimations().length
        + [...document.querySelectorAll("*")].filter((it) => parseFloat(getComputedStyle(it).transitionDuration) > 0).length"""
    page = visit(serving.page, reduced_motion="reduce")
    live(page)
    serving.kill()
    expect(page.locator("#away")).to_be_visible()
    assert page.evaluate(moving) == 0


def test_it_fits_a_phone(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(OPEN_END)
    page = visit(serving.page, viewport=PHONE)
    live(page)
    with serving.stream(), serving.stream():
        expect(page.locator("#requests tbody tr")).to_have_count(2)
        assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
        # Nothing is cut off at the edge, and what is pressed is large enough for a finger.
        assert page.evaluate("""() => [...document.querySelectorAll("main :not(.scroll *)")].filter((it) => {
            const box = it.getBoundingClientRect();
            return box.width > 1 && box.right > innerWidth + 0.5;
        }).map((it) => it.outerHTML.slice(0, 80))""") == []
        for button in page.get_by_role("button").all():
            box = button.bounding_box()
            assert box is None or box["height"] >= 28, box
        act(page, "primary/first", "Drain the candidate")
        expect(state(page, "primary/first")).to_have_text("Drained")
        keep(page, "phone")
