"""The gateway under test: the real binary, a configuration of its own, a loopback port."""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CLIENT_KEY = "sk-client"
PROVIDER_KEY = "sk-provider"

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
inline_keys = true

[providers.o]
dialect = "openai"
base_url = "{provider}/v1"
api_key = "{provider_key}"

[providers.a]
dialect = "anthropic"
base_url = "{provider}"
api_key = "{provider_key}"

[models.gpt]
candidates = [{{ provider = "o", model = "first" }}]

[models.gpt-with-spare]
candidates = [{{ provider = "o", model = "first" }}, {{ provider = "o", model = "second" }}]

[models.claude]
candidates = [{{ provider = "a", model = "first" }}]

[models.claude-with-spare]
candidates = [{{ provider = "a", model = "first" }}, {{ provider = "a", model = "second" }}]

[defaults.retry]
max_retries = 2
base = "10ms"

[defaults.timeouts]
first_output = "{first_output}"
idle = "{idle}"
total = "6s"

[telemetry]
records.path = "{records}"
traces.start = true
"""

# What max_retries above comes to.
ATTEMPTS = 3

START_LIMIT = 20.0
END_LIMIT = 10.0


@dataclass(frozen=True)
class Gateway:
    url: str
    # Where it writes a line for each request that is over.
    records: Path


class _Ended(Exception):
    """The child ended before it was ready."""


@contextmanager
def running(
    provider: str, folder: Path, *, first_output: str = "3s", idle: str = "3s", keyed: bool = False
) -> Iterator[Gateway]:
    """Runs `stanchion serve` in front of a provider. `keyed` lets in only those who present `CLIENT_KEY`."""
    clients = f'\n[clients.test]\nkey = "{CLIENT_KEY}"\n' if keyed else ""

    records = folder / "calls.jsonl"

    def start() -> tuple[subprocess.Popen[bytes], str]:
        port = _free_port()
        config = folder / "stanchion.toml"
        config.write_text(
            CONFIG.format(
                port=port,
                provider=provider,
                provider_key=PROVIDER_KEY,
                first_output=first_output,
                idle=idle,
                records=records,
            )
            + clients
        )
        # Its log goes to our standard error, where pytest shows it beside the test that failed.
        child = subprocess.Popen([os.environ["STANCHION"], "serve", "--config", str(config)], stdin=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(child, url)
        except BaseException:
            _end(child)
            raise
        return child, url

    try:
        child, url = start()
    except _Ended:
        # Somebody else may have taken the port between our look and the gateway's.
        child, url = start()
    try:
        yield Gateway(url, records)
    finally:
        _end(child)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _wait_until_ready(child: subprocess.Popen[bytes], url: str) -> None:
    limit = time.monotonic() + START_LIMIT
    while time.monotonic() < limit:
        if child.poll() is not None:
            raise _Ended(f"the gateway ended with {child.returncode} before it was ready")
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.01)
    raise TimeoutError(f"the gateway was not ready after {START_LIMIT} s")


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_LIMIT)
    except subprocess.TimeoutExpired:
        # It lets running streams end first, and a test that failed may have left one open.
        child.kill()
        child.wait()
