"""With OpenTelemetry on in the clients, their traces meet in the gateway's records and at the provider."""

import json
import time
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

import anthropic_replies as claude
import openai_replies as gpt
from gateway import CLIENT_KEY, Gateway
from provider import Provider
from tracing import take_spans

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
TRACER = trace.get_tracer("the test")


@pytest.fixture(autouse=True)
def no_spans_of_others() -> None:
    take_spans()


def only_record(gateway: Gateway) -> Any:
    """The record of the one request that was made; it is written when the request is over, by a thread of its own."""
    limit = time.monotonic() + 10
    while not (text := gateway.records.read_text()).endswith("\n"):
        assert time.monotonic() < limit, "no record is written"
        time.sleep(0.01)
    [line] = text.splitlines()
    return json.loads(line)


def meets(gateway: Gateway, provider: Provider, spans: tuple[ReadableSpan, ...]) -> Any:
    """That one of the spans is the parent of the gateway's, and each of its attempts the parent of the provider's."""
    record = only_record(gateway)
    ids = {
        f"{span.context.span_id:016x}": f"{span.context.trace_id:032x}" for span in spans if span.context is not None
    }
    assert ids[record["parent_span_id"]] == record["trace_id"]
    # The flags are the client's.
    told = [request.headers["traceparent"].rsplit("-", 1)[0] for request in provider.requests]
    assert told == [f"00-{record['trace_id']}-{attempt['span_id']}" for attempt in record["attempts"]]
    return record


def test_openai_stream_that_is_retried(openai_client: OpenAI, provider: Provider, gateway: Gateway) -> None:
    provider.play(gpt.error(503, "busy", "server_error"), gpt.chat_stream(gpt.TEXT))
    with TRACER.start_as_current_span("a user's turn"):
        stream = openai_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == "Hello wörld"
    spans = take_spans()
    assert any(span.name == "chat gpt" for span in spans), "the instrumentation of the client is on"
    record = meets(gateway, provider, spans)
    assert [attempt["outcome"] for attempt in record["attempts"]] == ["failed", "answered"]


def test_anthropic_stream_that_is_retried(anthropic_client: Anthropic, provider: Provider, gateway: Gateway) -> None:
    provider.play(claude.error(529, "overloaded_error", "busy"), claude.message_stream((claude.TEXT_BLOCK, claude.TEXT)))
    with anthropic_client.messages.stream(model="claude", max_tokens=64, messages=MESSAGES) as stream:
        assert stream.get_final_text() == "Hello wörld"
    record = meets(gateway, provider, take_spans())
    assert [attempt["outcome"] for attempt in record["attempts"]] == ["failed", "answered"]


def test_a_request_without_a_trace_begins_one(gateway: Gateway, provider: Provider) -> None:
    provider.play(gpt.chat({"content": "Hello"}))
    # Without the hook, this client says nothing of its trace.
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=CLIENT_KEY, timeout=20) as client:
        client.chat.completions.create(model="gpt", messages=MESSAGES)
    record = only_record(gateway)
    assert "parent_span_id" not in record
    [request] = provider.requests
    assert request.headers["traceparent"].startswith(f"00-{record['trace_id']}-")
