"""anthropic: what cannot be made good comes as the client's own typed error, once."""

from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from anthropic_replies import TEXT, broken_message_stream, error, error_object, event
from gateway import ATTEMPTS, CLIENT_KEY, Gateway
from provider import Ending, HangUp, Provider, Reply, document

ASK: dict[str, Any] = {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
BEGUN = TEXT[:-1]

LATE = {
    "cut": (broken_message_stream(BEGUN, Ending.CUT), "api_error"),
    "ended without a stop": (broken_message_stream(BEGUN, Ending.WHOLE), "api_error"),
    "cut in a frame": (
        broken_message_stream(BEGUN, Ending.CUT, b'event: content_block_delta\ndata: {"type": "content_bl'),
        "api_error",
    ),
    "overloaded in the stream": (
        broken_message_stream(BEGUN, Ending.WHOLE, event(error_object("overloaded_error", "Overloaded"))),
        "overloaded_error",
    ),
}


@pytest.mark.parametrize(("reply", "kind"), LATE.values(), ids=LATE.keys())
def test_late_failure(reply: Reply, kind: str, anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(reply)
    with anthropic_client.messages.stream(**ASK) as stream:
        with pytest.raises(anthropic.APIStatusError) as raised:
            stream.until_done()
        snapshot = stream.current_message_snapshot
    [block] = snapshot.content
    assert block.type == "text" and block.text == "Hello wör"
    assert snapshot.stop_reason is None
    assert raised.value.type == kind
    assert provider.asked() == 1


def test_late_failure_of_a_raw_stream(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(broken_message_stream(BEGUN, Ending.CUT))
    types = []
    with pytest.raises(anthropic.APIStatusError):
        for told in anthropic_client.messages.create(**ASK, stream=True):
            types.append(told.type)
    assert types == ["message_start", "content_block_start", "content_block_delta", "content_block_delta"]


def test_stall_after_output(start_gateway: Callable[..., Gateway], provider: Provider) -> None:
    provider.play(broken_message_stream(BEGUN, Ending.SILENT))
    with Anthropic(base_url=start_gateway(idle="200ms").url, api_key=CLIENT_KEY) as client:
        with client.messages.stream(**ASK) as stream:
            with pytest.raises(anthropic.APIStatusError) as raised:
                stream.until_done()
            [block] = stream.current_message_snapshot.content
            assert block.type == "text" and block.text == "Hello wör"
    assert raised.value.type == "timeout_error"


# Every error below is raised after as many attempts as it says: the client's own retries, on by default, add none.
TYPED = {
    "rate limit": (error(429, "rate_limit_error", "slow down"), anthropic.RateLimitError, "rate_limit_error", ATTEMPTS),
    "rate limit beyond the cap": (
        error(429, "rate_limit_error", "slow down", retry_after="120"),
        anthropic.RateLimitError,
        "rate_limit_error",
        1,
    ),
    "overflow": (
        error(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        anthropic.BadRequestError,
        "invalid_request_error",
        1,
    ),
    "overflow as a 500": (
        error(500, "api_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        anthropic.BadRequestError,
        "invalid_request_error",
        1,
    ),
    "authentication": (
        error(401, "authentication_error", "invalid x-api-key"),
        anthropic.AuthenticationError,
        "authentication_error",
        1,
    ),
    "permission": (
        error(403, "permission_error", "not for you"),
        anthropic.PermissionDeniedError,
        "permission_error",
        1,
    ),
    "bad request": (
        error(400, "invalid_request_error", "max_tokens: too large"),
        anthropic.BadRequestError,
        "invalid_request_error",
        1,
    ),
    "overloaded": (
        error(529, "overloaded_error", "Overloaded"),
        anthropic.OverloadedError,
        "overloaded_error",
        ATTEMPTS,
    ),
    "server error": (error(500, "api_error", "oops"), anthropic.InternalServerError, "api_error", ATTEMPTS),
    "no answer": (HangUp(), anthropic.APIStatusError, "api_error", ATTEMPTS),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("reply", "error_type", "kind", "attempts"), TYPED.values(), ids=TYPED.keys())
def test_typed(
    reply: Reply | HangUp,
    error_type: type[anthropic.APIStatusError],
    kind: str,
    attempts: int,
    stream: bool,
    anthropic_client: Anthropic,
    provider: Provider,
) -> None:
    provider.play(reply)
    with pytest.raises(error_type) as raised:
        anthropic_client.messages.create(**ASK, stream=stream)
    assert raised.value.type == kind
    assert provider.asked() == attempts
    assert raised.value.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("status", [400, 500])
def test_overflow_keeps_the_words_that_clients_look_for(
    status: int, anthropic_client: Anthropic, provider: Provider
) -> None:
    provider.play(
        error(
            status,
            "api_error" if status == 500 else "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        )
    )
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 210000 tokens > 200000 maximum"):
        anthropic_client.messages.create(**ASK)


def test_rate_limit_tells_how_long_and_whom_to_ask(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(error(429, "rate_limit_error", "slow down", retry_after="120", request_id="req_1"))
    with pytest.raises(anthropic.RateLimitError) as raised:
        anthropic_client.messages.create(**ASK)
    assert raised.value.response.headers["retry-after"] == "120"
    assert raised.value.request_id == "req_1"


def test_details_reach_the_client(anthropic_client: Anthropic, provider: Provider) -> None:
    told = error_object("rate_limit_error", "slow down", error_code="ramp_limit_exceeded")
    provider.play(document(told, 429))
    with pytest.raises(anthropic.RateLimitError) as early:
        anthropic_client.messages.create(**ASK)
    provider.play(broken_message_stream(BEGUN, Ending.WHOLE, event(told)))
    with pytest.raises(anthropic.APIStatusError) as late:
        list(anthropic_client.messages.create(**ASK, stream=True))
    assert (early.value.error_code, late.value.error_code) == ("ramp_limit_exceeded",) * 2


def test_unknown_model(anthropic_client: Anthropic, provider: Provider) -> None:
    with pytest.raises(anthropic.NotFoundError, match="claude-with-spare"):
        anthropic_client.messages.create(**{**ASK, "model": "nobody"})
    assert provider.requests == []


def test_model_of_another_dialect(anthropic_client: Anthropic, provider: Provider) -> None:
    with pytest.raises(anthropic.BadRequestError, match="dialect"):
        anthropic_client.messages.create(**{**ASK, "model": "gpt"})
    assert provider.requests == []


def test_wrong_client_key(start_gateway: Callable[..., Gateway], provider: Provider) -> None:
    gateway = start_gateway(keyed=True)
    with Anthropic(base_url=gateway.url, api_key="sk-somebody-else") as client:
        with pytest.raises(anthropic.AuthenticationError):
            client.messages.create(**ASK)
    assert provider.requests == []
    provider.play(error(401, "authentication_error", "told by the provider"))
    with Anthropic(base_url=gateway.url, api_key=CLIENT_KEY) as client:
        with pytest.raises(anthropic.AuthenticationError, match="told by the provider"):
            client.messages.create(**ASK)
