import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from anthropic import Anthropic
from openai import DefaultHttpxClient, OpenAI

import tracing
from gateway import CLIENT_KEY, Gateway, running
from provider import Provider

# The clients and the health check read these; a developer's own settings would send a test somewhere else.
for name in list(os.environ):
    if name.upper().startswith(("OPENAI_", "ANTHROPIC_")) or name.upper().endswith("_PROXY"):
        del os.environ[name]

if tracing.TRACED:
    tracing.switch_on()
else:
    collect_ignore = ["test_traces.py"]

# Only against a hang: the clients' own ten minutes are too long for a test. All else about them is as it comes.
LIMIT = 20.0


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def start_gateway(provider: Provider, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """For tests that want other settings than the usual ones."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(provider.url, tmp_path, **settings))


@pytest.fixture
def gateway(start_gateway: Callable[..., Gateway]) -> Gateway:
    return start_gateway()


@pytest.fixture
def openai_client(gateway: Gateway) -> Iterator[OpenAI]:
    # Only where it has something to add: the client that it makes by itself is what users have.
    http = DefaultHttpxClient(event_hooks=tracing.HOOKS, timeout=LIMIT) if tracing.HOOKS else None
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=CLIENT_KEY, timeout=LIMIT, http_client=http) as client:
        yield client


@pytest.fixture
def anthropic_client(gateway: Gateway) -> Iterator[Anthropic]:
    with Anthropic(base_url=gateway.url, api_key=CLIENT_KEY, timeout=LIMIT) as client:
        yield client
