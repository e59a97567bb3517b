"""An operator's hand: what it does, what it is asked first, and who may."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from looking import OPEN_END, WHOLE, act, lines, live, row, state
from provider import Provider
from serving import Serving

Visit = Callable[..., Page]
Keep = Callable[[Page, str], None]


def test_nothing_is_done_before_it_is_confirmed(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    page = visit(serving.page)
    live(page)
    button = row(page, "primary/first").get_by_role("button")
    dialog = page.get_by_role("dialog")
    for leave in ("Cancel", "Escape"):
        button.click()
        expect(dialog).to_be_visible()
        expect(dialog.get_by_role("heading")).to_have_text("primary/first")
        expect(dialog.get_by_role("button", name="Choose what to do")).to_be_disabled()
        page.get_by_role("radio", name="Open the circuit").check()
        expect(dialog.get_by_role("button", name="Open the circuit")).to_be_enabled()
        keep(page, "confirm")
        page.get_by_role("button", name="Cancel").click() if leave == "Cancel" else page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        # Whoever left it is where they were.
        expect(button).to_be_focused()
    assert serving.candidate("primary/first")["circuit"]["by_hand"] is False


def test_a_circuit_is_opened_closed_and_reset(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(WHOLE)
    provider.play(WHOLE, model="second")
    page = visit(serving.page)
    live(page)
    act(page, "primary/first", "Open the circuit")
    expect(state(page, "primary/first")).to_have_text("Held open")
    expect(lines(page).filter(has_text="By hand: opened the circuit of primary/first")).to_have_count(1)
    assert serving.ask() == 200
    assert (provider.asked("first"), provider.asked("second")) == (0, 1)
    keep(page, "held")
    act(page, "primary/first", "Close the circuit")
    expect(state(page, "primary/first")).to_have_text("Closed")
    assert serving.ask() == 200
    assert (provider.asked("first"), provider.asked("second")) == (1, 1)
    act(page, "primary/first", "Reset the circuit")
    expect(lines(page).filter(has_text="By hand: reset the circuit of primary/first")).to_have_count(1)


def test_a_candidate_is_drained_and_its_streams_go_on(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(OPEN_END)
    provider.play(WHOLE, model="second")
    page = visit(serving.page)
    live(page)
    with serving.stream():
        expect(row(page, "primary/first").locator("[data-label=Running]")).to_have_text("1")
        act(page, "primary/first", "Drain the candidate")
        expect(state(page, "primary/first")).to_have_text("Drained")
        expect(row(page, "primary/first")).to_contain_text("1 request still running")
        assert serving.ask() == 200
        assert (provider.asked("first"), provider.asked("second")) == (1, 1)
        keep(page, "drained")
    expect(row(page, "primary/first")).to_contain_text("takes no requests")
    act(page, "primary/first", "Take requests again")
    expect(state(page, "primary/first")).to_have_text("Closed")


def test_it_warns_before_a_model_is_left_without_a_candidate(serving: Serving, visit: Visit) -> None:
    page = visit(serving.page)
    live(page)
    warning = page.locator("#act-warning")
    row(page, "primary/first").get_by_role("button").click()
    page.get_by_role("radio", name="Drain the candidate").check()
    expect(warning).to_be_hidden()
    page.keyboard.press("Escape")
    row(page, "primary/third", "alone").get_by_role("button").click()
    page.get_by_role("radio", name="Drain the candidate").check()
    expect(warning).to_have_text("Nobody else takes requests for alone: they will fail.")
    page.get_by_role("button", name="Drain the candidate").click()
    expect(page.locator("#headline-title")).to_have_text("alone has no candidate left")


def test_what_cannot_be_done_is_told_where_it_was_asked(serving: Serving, visit: Visit) -> None:
    page = visit(serving.page)
    live(page)
    row(page, "primary/first").get_by_role("button").click()
    page.get_by_role("radio", name="Drain the candidate").check()
    serving.kill()
    page.get_by_role("button", name="Drain the candidate").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("The gateway does not answer.")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_key_is_asked_for_and_kept_for_the_tab(start: Callable[..., Serving], visit: Visit, keep: Keep, monkeypatch) -> None:
    key = "an operator's key"
    monkeypatch.setenv("ADMIN_KEY", key)
    serving = start(admin_more='key_env = "ADMIN_KEY"')
    page = visit(serving.page)
    field = page.get_by_label("Key", exact=True)
    expect(field).to_be_focused()
    expect(page.locator("#board")).to_be_hidden()
    keep(page, "login")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("The gateway does not know this key.")
    field.fill(key)
    page.get_by_role("button", name="Show the status").click()
    live(page)
    act(page, "primary/first", "Drain the candidate")
    expect(state(page, "primary/first")).to_have_text("Drained")
    # It is not where it would be kept, logged or sent along.
    assert key not in page.url and key not in page.content()
    assert key not in page.evaluate("() => JSON.stringify(localStorage) + document.cookie")
    page.reload()
    live(page)
    # Another tab has to know it, too; and a restart changes nothing for this one.
    serving.kill()
    serving.start()
    live(page)
    page.get_by_role("button", name="Forget key").click()
    expect(field).to_be_visible()
    assert key not in page.evaluate("() => JSON.stringify(sessionStorage)")
    assert key not in serving.log
