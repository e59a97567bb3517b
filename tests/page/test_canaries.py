"""Nothing that a client or a provider says, and no key, is in anything that the process emits."""

import contextlib
import http.server
import json
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

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
    "collector's key": "canary-collector-key",
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


class Collector:
    """Takes what is sent by OTLP. Protobuf holds text as it is, so it can be looked through without being read."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.keys: set[str] = set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.bodies[self.path] = collector.bodies.get(self.path, b"") + body
                collector.keys.add(self.headers["authorization"])
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_canaries(
    start: Callable[..., Serving], provider: Provider, visit: Callable[..., Page], tmp_path: Path, monkeypatch
) -> None:
    collector = Collector()
    records = tmp_path / "calls.jsonl"
    monkeypatch.setenv("ADMIN_KEY", PLANTED["admin key"])
    monkeypatch.setenv("COLLECTOR", "authorization=" + PLANTED["collector's key"])
    kept = f"""
[telemetry]
records.path = "{records}"
traces.log = true
otlp = {{ endpoint = "{collector.url}", headers_env = "COLLECTOR" }}
"""
    serving = start(
        key=PLANTED["provider key"],
        retries=1,
        admin_more='key_env = "ADMIN_KEY"',
        more=f'[clients.me]\nkey = "{PLANTED["client key"]}"\nidentity_headers = true\n' + kept,
        log_level="trace",
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
    collector.close()
    emitted["log"] = serving.log
    assert "TRACE" in emitted["log"], "all that there is to log is logged"
    emitted["records"] = records.read_text()
    emitted |= {path: body.decode(errors="replace") for path, body in collector.bodies.items()}
    assert collector.keys == {PLANTED["collector's key"]}
    assert {"/v1/traces", "/v1/metrics"} <= emitted.keys()
    # Each of them had something to tell of these requests.
    for name, text in emitted.items():
        assert "primary/first" in text, name
    leaks = [f"{what} in {name}" for name, text in emitted.items() for what, canary in PLANTED.items() if canary in text]
    assert leaks == []
