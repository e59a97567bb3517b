"""Nothing that a client or a provider says, and no key, is in anything that the process emits."""

import contextlib
import json
import threading
import urllib.request
from collections.abc import Callable

from playwright.sync_api import Page, expect

from looking import DOWN, OPEN_END, lines, live
from openai_replies import ROLE, chat_stream, error
from provider import Provider
from serving import Serving

PLANTED = {
    "client key": "canary-client-key",
    "provider key": "canary-provider-key",
    "admin key": "canary-admin-key",
    "prompt": "canary-prompt",
    "output": "canary-output",
    "tool": "canary_tool",
    "session": "canary-session",
    "owner": "canary-owner",
    "user": "canary-user",
    "provider's words": "canary-words-of-the-provider",
}


class Listening(threading.Thread):
    """Keeps what a subscriber is sent."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.heard = b""
        request = urllib.request.Request(url, headers={"authorization": f"Bearer {PLANTED['admin key']}"})
        self._answer = urllib.request.urlopen(request, timeout=20)
        self.start()

    def run(self) -> None:
        # It ends with the gateway.
        with contextlib.suppress(OSError, ValueError):
            while piece := self._answer.read1(65536):
                self.heard += piece


def test_canaries(start: Callable[..., Serving], provider: Provider, visit: Callable[..., Page], monkeypatch) -> None:
    monkeypatch.setenv("ADMIN_KEY", PLANTED["admin key"])
    serving = start(
        key=PLANTED["provider key"],
        retries=1,
        admin_more='key_env = "ADMIN_KEY"',
        more=f'[clients.me]\nkey = "{PLANTED["client key"]}"\n',
    )
    words = error(503, PLANTED["provider's words"], "server_error")
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": PLANTED["tool"], "arguments": "{}"}}
    said = chat_stream([ROLE, {"content": PLANTED["output"]}, {"tool_calls": [call]}], "tool_calls")
    provider.play(words, said, DOWN, words, OPEN_END)
    provider.play(said, model="second")
    page = visit(serving.page)
    page.get_by_label("Key", exact=True).fill(PLANTED["admin key"])
    page.keyboard.press("Enter")
    live(page)
    listening = [Listening(f"{serving.page}events"), Listening(f"{serving.page}events?view=requests")]

    headers = {
        "authorization": f"Bearer {PLANTED['client key']}",
        "x-stanchion-session": PLANTED["session"],
        "x-stanchion-owner": PLANTED["owner"],
    }
    more = {
        "messages": [{"role": "user", "content": PLANTED["prompt"]}],
        "tools": [{"type": "function", "function": {"name": PLANTED["tool"], "parameters": {}}}],
        "user": PLANTED["user"],
    }
    # One that a retry cures, one that falls over, and one that is still in flight.
    assert [serving.ask(headers=headers, **more) for _ in range(2)] == [200, 200]
    # The canaries are really there: the provider saw them, and the client got the output.
    assert PLANTED["prompt"] in json.dumps(provider.requests[0].body)
    assert provider.requests[0].headers["authorization"] == f"Bearer {PLANTED['provider key']}"
    with serving.stream(headers=headers, **more):
        expect(page.locator("#requests tbody tr")).to_have_count(1)
        expect(lines(page)).not_to_have_count(0)
        emitted = {"page": page.content()}
        for path in ("status", "metrics"):
            request = urllib.request.Request(
                f"{serving.page}{path}", headers={"authorization": f"Bearer {PLANTED['admin key']}"}
            )
            with urllib.request.urlopen(request, timeout=5) as answer:
                emitted[path] = answer.read().decode()
    serving.stop()
    for each in listening:
        each.join(10)
    emitted["events"], emitted["requests"] = (each.heard.decode() for each in listening)
    emitted["log"] = serving.log
    # Each of them had something to tell of these requests.
    for name, text in emitted.items():
        assert "primary/first" in text, name
    leaks = [f"{what} in {name}" for name, text in emitted.items() for what, canary in PLANTED.items() if canary in text]
    assert leaks == []
