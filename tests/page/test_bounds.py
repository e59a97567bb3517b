"""However much happens, the page stays as it is: rows, nodes, listeners, memory."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from playwright.sync_api import Page, expect

from looking import DOWN, OPEN_END, WHOLE, lines, live, weight
from openai_replies import error
from provider import Provider
from serving import Serving

Visit = Callable[..., Page]
Keep = Callable[[Page, str], None]

STREAMS = 500


def test_500_streams_at_once_and_nothing_grows(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(OPEN_END)
    page = visit(serving.page)
    live(page)
    # The lines of the feed are counted by a test of their own.
    page.get_by_label("Kind").select_option("Keys")

    def a_round() -> dict[str, float]:
        with ExitStack() as streams:
            for _ in range(STREAMS):
                streams.enter_context(serving.stream())
            expect(page.locator("#requests-note")).to_have_text("500 requests", timeout=30_000)
            expect(page.locator("#requests tbody tr")).to_have_count(24)
            expect(page.locator("#requests-more")).to_have_text("and 476 more")
            page.wait_for_timeout(1_500)
            weighed = weight(page)
            keep(page, "500-streams")
        expect(page.locator("#requests-more")).to_have_text("No request is in flight.", timeout=30_000)
        return weighed

    # The first makes what later ones use again.
    before = a_round()
    for _ in range(3):
        after = a_round()
    assert after["JSEventListeners"] == before["JSEventListeners"]
    assert after["Nodes"] <= before["Nodes"] + 60, f"{before} {after}"
    assert after["JSHeapUsedSize"] <= before["JSHeapUsedSize"] + 1_000_000, f"{before} {after}"
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    # Each update is drawn at once, however much is in flight.
    assert page.evaluate("""() => new Promise((done) => {
        const began = performance.now();
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
    })""") < 500


def test_a_flood_of_events_is_folded_and_cut(serving: Serving, provider: Provider, visit: Visit) -> None:
    provider.play(DOWN)
    provider.play(WHOLE, model="second")
    page = visit(serving.page)
    live(page)
    for _ in range(60):
        assert serving.ask() == 200
    fallbacks = lines(page).filter(has_text="Fallback from primary/first")
    expect(fallbacks).to_have_count(1)
    expect(fallbacks.locator(".times")).to_have_text("× 60")
    # Lines that differ are cut at a hundred, the oldest first.
    statuses = [*range(430, 499), *range(500, 580)]
    provider.play(*(error(status, "no", "server_error") for status in statuses), model="third")
    for status in statuses:
        assert serving.ask("alone") >= 400, status
    expect(lines(page).filter(has_text="(579)")).to_have_count(1)
    expect(lines(page)).to_have_count(100)
    assert "(430)" not in page.locator("#feed").inner_text()


def test_a_paused_feed_stands_still_and_counts(serving: Serving, provider: Provider, visit: Visit) -> None:
    provider.play(DOWN)
    provider.play(WHOLE, model="second")
    page = visit(serving.page)
    live(page)
    serving.ask()
    expect(lines(page).filter(has_text="Fallback")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    shown = lines(page).all_inner_texts()
    time.sleep(5.5)
    serving.ask()
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_have_text("Resume (2 new)")
    assert lines(page).all_inner_texts() == shown
    resume.click()
    expect(lines(page)).not_to_have_count(len(shown))
