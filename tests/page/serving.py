"""The gateway under test: the real binary with an admin listener, ports that stay the same when it is started again, and its clients."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
inline_keys = true

[admin]
listen = "127.0.0.1:{admin}"
{admin_more}

[providers.primary]
dialect = "openai"
base_url = "{provider}/v1"
api_key = "{key}"

[providers.spare]
dialect = "openai"
base_url = "{provider}/v1"
api_key = "{key}"

[models.main]
candidates = [{{ provider = "primary", model = "first" }}, {{ provider = "spare", model = "second" }}]

[models.alone]
candidates = [{{ provider = "primary", model = "third" }}]
circuit = {{ open = "0s" }}

[defaults.retry]
max_retries = {retries}
base = "10ms"

[defaults.circuit]
open = "60s"
min_samples = 4

[defaults.timeouts]
stall_warning = "2s"
{more}
"""

START_LIMIT = 20.0
END_LIMIT = 20.0


class Serving:
    """A gateway that can be ended and started again."""

    def __init__(
        self,
        provider: str,
        folder: Path,
        *,
        key: str = "sk-provider",
        retries: int = 0,
        admin_more: str = "",
        more: str = "",
        log_level: str = "debug",
    ) -> None:
        self._port, self._admin = _free_ports(2)
        self._config = folder / "stanchion.toml"
        self._log_path = folder / "log"
        self._log_level = log_level
        self._text = CONFIG.format(
            port=self._port, admin=self._admin, provider=provider, key=key, retries=retries, admin_more=admin_more, more=more
        )
        self._config.write_text(self._text)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self._admin}/"

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    def start(self) -> None:
        with self._log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [os.environ["STANCHION"], "serve", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "STANCHION_LOG": self._log_level, "NO_COLOR": "1"},
            )
        limit = time.monotonic() + START_LIMIT
        while time.monotonic() < limit:
            assert self._child.poll() is None, f"the gateway ended before it was ready:\n{self.log}"
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                with urllib.request.urlopen(f"{self.page}readyz", timeout=1) as answer:
                    if answer.status == 200:
                        return
            time.sleep(0.01)
        raise TimeoutError(f"the gateway was not ready after {START_LIMIT} s")

    def reload(self, more: str = "") -> None:
        """Takes the configuration anew, with `more` behind it as it was at first."""
        self._config.write_text(self._text + more)
        assert self._child is not None
        self._child.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """Ends it without a goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Asks it to end."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._child is None:
            return
        self._child.send_signal(how)
        try:
            self._child.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None

    def status(self, key: str | None = None) -> Any:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.page}status", headers=headers), timeout=5) as answer:
            return json.load(answer)

    def candidate(self, name: str, model: str = "main") -> Any:
        """How a candidate stands, by the gateway's own word."""
        (found,) = [each for each in self.status()["models"] if each["name"] == model]
        return next(each for each in found["candidates"] if each["name"] == name)

    def ask(self, model: str = "main", **more: Any) -> int:
        """Makes one call, to its end. Its status."""
        with self.stream(model, **more) as stream:
            return stream.finish()

    def stream(self, model: str = "main", **more: Any) -> "Stream":
        return Stream(self._port, model, **more)


class Stream:
    """A client that has asked for a stream, and reads it when it is told to."""

    def __init__(self, port: int, model: str, *, headers: dict[str, str] = {}, **more: Any) -> None:
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}], **more}
        raw = json.dumps(body).encode()
        lines = [
            "POST /v1/chat/completions HTTP/1.1",
            "host: gateway",
            "connection: close",
            "content-type: application/json",
            f"content-length: {len(raw)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + raw)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def finish(self) -> int:
        reply = b""
        while piece := self._socket.recv(65536):
            reply += piece
        self.reply = reply
        return int(reply.split(b" ", 2)[1])


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
