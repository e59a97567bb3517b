"""What the page shows of a gateway that works, and of one that does not."""

import re
import time
from collections.abc import Callable

from playwright.sync_api import Page, expect

from looking import DOWN, OPEN_END, WHOLE, act, lines, live, row, state, tile
from openai_replies import ROLE, TEXT, chat_stream
from provider import Provider
from serving import Serving

Visit = Callable[..., Page]
Keep = Callable[[Page, str], None]


def test_a_gateway_that_works(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(WHOLE)
    page = visit(serving.page)
    live(page)
    expect(page.locator("#headline-title")).to_have_text("All candidates take requests")
    expect(page.locator("#feed-empty")).to_be_visible()
    for _ in range(4):
        assert serving.ask() == 200
    expect(tile(page, "Requests").locator(".value")).to_have_text("4 / min")
    expect(tile(page, "Requests").locator(".sub")).to_have_text("no errors")
    expect(state(page, "primary/first")).to_have_text("Closed")
    expect(state(page, "primary/third", "alone")).to_have_text("No circuit")
    expect(page.locator("#requests-more")).to_have_text("No request is in flight.")
    keep(page, "works")


def test_a_failing_candidate_shows_within_a_second(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(DOWN)
    provider.play(WHOLE, model="second")
    page = visit(serving.page)
    live(page)
    # The page's own clock says when the row turned.
    page.evaluate("""() => {
        globalThis.turned = {};
        new MutationObserver(() => {
            for (const row of document.querySelectorAll("#models tr[data-state]")) {
                globalThis.turned[`${row.querySelector(".name").textContent} ${row.dataset.state}`] ??= Date.now();
            }
        }).observe(document.querySelector("#models"), { subtree: true, childList: true, attributes: true });
    }""")
    # Each call fails at the first candidate, and the fourth failure opens its circuit.
    for _ in range(4):
        asked = time.time()
        assert serving.ask() == 200
    assert serving.candidate("primary/first")["circuit"]["state"] == "open"
    page.wait_for_function("() => globalThis.turned['primary/first open']")
    took = page.evaluate("() => globalThis.turned['primary/first open']") / 1000 - asked
    assert took < 1, f"it took {took:.3f} s"
    expect(page.locator("#headline-title")).to_have_text("1 of 3 candidates takes no requests")
    expect(row(page, "primary/first")).to_contain_text(re.compile(r"probe in \d+ s · server error \(503\)"))
    expect(lines(page).filter(has_text="Circuit of primary/first opened: 4 of 4 failed")).to_have_count(1)
    expect(lines(page).filter(has_text="Fallback from primary/first to spare/second")).to_have_count(1)
    expect(row(page, "primary/first").locator("[data-label=Errors]")).to_have_text("100 %")
    assert page.title().startswith("(1) ")
    keep(page, "failing")


def test_streams_in_flight_and_how_they_stand(start: Callable[..., Serving], provider: Provider, visit: Visit, keep: Keep) -> None:
    serving = start(more="[admission]\nglobal_concurrency = 2\n")
    provider.play(OPEN_END)
    page = visit(serving.page)
    live(page)
    with serving.stream(), serving.stream(headers={"x-stanchion-class": "background"}):
        rows = page.locator("#requests tbody tr")
        expect(rows).to_have_count(2)
        with serving.stream():
            expect(rows).to_have_count(3)
            expect(page.locator("#requests tr[data-phase=streaming]")).to_have_count(2)
            expect(page.locator("#requests tr[data-phase=queued]")).to_have_count(1)
            expect(page.locator("#limits .limit").filter(has_text="May run").locator(".value")).to_have_text("2 of 2")
            waiting = page.locator("#queue tbody tr").filter(has_text="foreground")
            expect(waiting.locator("td").nth(1)).to_have_text("1")
            expect(waiting.locator("td").nth(2)).to_have_text(re.compile(r"\d"))
            expect(lines(page).filter(has_text="A foreground request queues for primary/first")).to_have_count(1)
            # A stall is told after 2 s, and comes first.
            expect(page.locator("#requests tr[data-phase=stalled]")).to_have_count(2)
            expect(rows.first).to_contain_text("Stalled")
            expect(lines(page).filter(has_text="primary/first has shown no progress")).to_have_count(1)
            keep(page, "streams")
    expect(rows).to_have_count(0)


def test_retries_prompt_caches_and_cost(start: Callable[..., Serving], provider: Provider, visit: Visit) -> None:
    serving = start(retries=2)
    provider.play(DOWN, WHOLE)
    page = visit(serving.page)
    live(page)
    assert serving.ask() == 200
    expect(lines(page).filter(has_text="Retry 1 of 2 of primary/first")).to_have_count(1)
    expect(lines(page).filter(has_text="primary/first answered after 1 retry")).to_have_count(1)
    # What a retry has cured is no error of the model.
    expect(tile(page, "Error rate").locator(".value")).to_have_text("0 %")
    expect(row(page, "primary/first").locator("[data-label=Errors]")).to_have_text("50 %")


def test_one_model_alone(serving: Serving, provider: Provider, visit: Visit) -> None:
    provider.play(WHOLE)
    provider.play(WHOLE, model="third")
    page = visit(serving.page)
    live(page)
    assert [serving.ask(), serving.ask(), serving.ask("alone")] == [200, 200, 200]
    value = tile(page, "Requests").locator(".value")
    expect(value).to_have_text("3 / min")
    page.get_by_label("Show").select_option("alone")
    expect(value).to_have_text("1 / min")
    expect(page.locator("#models .group")).to_have_count(1)
    page.get_by_label("Show").select_option("All models")
    expect(value).to_have_text("3 / min")


def test_it_survives_a_restart(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(WHOLE)
    page = visit(serving.page)
    live(page)
    act(page, "spare/second", "Drain the candidate")
    expect(state(page, "spare/second")).to_have_text("Drained")
    page.get_by_label("Show").select_option("main")
    serving.kill()
    expect(page.locator("#link-text")).to_have_text("Disconnected")
    expect(page.locator("#away-title")).to_have_text(re.compile(r"^No connection to the gateway since \d\d:\d\d:\d\d\.$"))
    # What was known is still to be seen.
    expect(state(page, "spare/second")).to_have_text("Drained")
    keep(page, "away")
    serving.start()
    live(page)
    expect(page.locator("#away")).to_be_hidden()
    expect(state(page, "spare/second")).to_have_text("Closed")
    expect(lines(page).filter(has_text="The gateway was started anew")).to_have_count(1)
    expect(lines(page).filter(has_text="Connected again after")).to_have_count(1)
    assert serving.ask() == 200
    expect(tile(page, "Requests").locator(".value")).to_have_text("1 / min")
    expect(page.get_by_label("Show")).to_have_value("main")


def test_an_end_that_waits_for_a_stream_is_told(serving: Serving, provider: Provider, visit: Visit, keep: Keep) -> None:
    provider.play(OPEN_END)
    page = visit(serving.page)
    live(page)
    with serving.stream():
        expect(page.locator("#requests tbody tr")).to_have_count(1)
        assert serving._child is not None
        serving._child.terminate()
        expect(page.locator("#ending")).to_contain_text("1 request may still end")
        keep(page, "ending")
    # The stream has left, and so does the gateway.
    expect(page.locator("#link-text")).to_have_text("Disconnected")
    expect(lines(page).filter(has_text="The gateway is ending")).to_have_count(1)
    assert serving._child.wait(20) == 0


def test_a_configuration_that_is_wrong_is_told_until_one_is_right(serving: Serving, visit: Visit, keep: Keep) -> None:
    page = visit(serving.page)
    live(page)
    banner = page.locator("#refused")
    expect(banner).to_be_hidden()
    serving.reload("[modles.other]\n[admission]\nmax_pending = 0\n")
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("modles")
    expect(banner).to_contain_text("What was served before still is.")
    assert serving.status()["gateway"]["config"]["generation"] == 1
    keep(page, "refused")
    serving.reload("[admission]\nmax_pending = 9\n")
    expect(banner).to_be_hidden()
    assert serving.status()["gateway"]["config"]["generation"] == 2


def test_names_are_text_whatever_they_look_like(start: Callable[..., Serving], provider: Provider, visit: Visit) -> None:
    name = "<img src=x onerror=alert(1)>"
    serving = start(more=f"""[models."{name}"]\ncandidates = [{{ provider = "primary", model = "{name}" }}]\n""")
    provider.play(WHOLE, model=name)
    page = visit(serving.page)
    live(page)
    assert serving.ask(name) == 200
    act(page, f"primary/{name}", "Open the circuit", name)
    expect(state(page, f"primary/{name}", name)).to_have_text("Held open")
    expect(lines(page).filter(has_text=f"By hand: opened the circuit of primary/{name}")).to_have_count(1)
    assert page.locator("img").count() == 0


def test_nothing_that_a_client_or_a_provider_says_gets_in(serving: Serving, provider: Provider, visit: Visit) -> None:
    said = [ROLE, {"content": "canary-in-the-output"}]
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "canary_tool", "arguments": "{}"}}
    provider.play(DOWN, chat_stream([*said, {"tool_calls": [call]}]), OPEN_END)
    provider.play(chat_stream(TEXT), model="second")
    page = visit(serving.page)
    live(page)
    headers = {"x-stanchion-session": "canary-session", "x-stanchion-owner": "canary-owner"}
    more = {
        "messages": [{"role": "user", "content": "canary-in-the-prompt"}],
        "tools": [{"type": "function", "function": {"name": "canary_tool", "parameters": {}}}],
        "user": "canary-user",
    }
    assert [serving.ask(headers=headers, **more) for _ in range(2)] == [200, 200]
    with serving.stream(headers=headers, **more):
        expect(page.locator("#requests tbody tr")).to_have_count(1)
        expect(lines(page)).not_to_have_count(0)
        assert "canary" not in page.content()
        assert "sk-provider" not in page.content()
    with serving.stream("canary-model") as stream:
        assert stream.finish() == 404
    page.wait_for_timeout(1_500)
    assert "canary" not in page.content()


