"""openai: what cannot be made good comes as the client's own typed error, once."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import OpenAI

from gateway import ATTEMPTS, CLIENT_KEY, Gateway
from openai_replies import TEXT, broken_chat_stream, error, sse
from provider import Ending, HangUp, Provider, Reply

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
BEGUN = TEXT[:-1]

LATE = {
    "cut": (broken_chat_stream(BEGUN, Ending.CUT), "connection_broken"),
    "ended without a finish": (broken_chat_stream(BEGUN, Ending.WHOLE), "stream_truncated"),
    "done without a finish": (broken_chat_stream(BEGUN, Ending.WHOLE, b"data: [DONE]\n\n"), "stream_truncated"),
    "cut in a frame": (
        broken_chat_stream(BEGUN, Ending.CUT, b'data: {"id": "chatcmpl-lost", "cho'),
        "connection_broken",
    ),
    "error in the stream": (
        broken_chat_stream(
            BEGUN, Ending.WHOLE, sse({"error": {"message": "oops", "type": "server_error", "code": "server_error"}})
        ),
        "server_error",
    ),
}


@pytest.mark.parametrize(("reply", "code"), LATE.values(), ids=LATE.keys())
def test_late_failure(reply: Reply, code: str, openai_client: OpenAI, provider: Provider) -> None:
    provider.play(reply)
    text, finishes = "", []
    with pytest.raises(openai.APIError) as raised:
        for chunk in openai_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True):
            text += chunk.choices[0].delta.content or ""
            finishes.append(chunk.choices[0].finish_reason)
    assert text == "Hello wör"
    assert set(finishes) == {None}
    assert raised.value.code == code
    # Told, not broken off.
    assert not isinstance(raised.value, openai.APIConnectionError)
    assert provider.asked() == 1


def test_late_failure_keeps_the_helpers_text(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(broken_chat_stream(BEGUN, Ending.CUT))
    with openai_client.chat.completions.stream(model="gpt", messages=MESSAGES) as stream:
        with pytest.raises(openai.APIError):
            stream.until_done()
        assert stream.current_completion_snapshot.choices[0].message.content == "Hello wör"


def test_stall_after_output(start_gateway: Callable[..., Gateway], provider: Provider) -> None:
    provider.play(broken_chat_stream(BEGUN, Ending.SILENT))
    text = ""
    with OpenAI(base_url=f"{start_gateway(idle='200ms').url}/v1", api_key=CLIENT_KEY) as client:
        with pytest.raises(openai.APIError) as raised:
            for chunk in client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True):
                text += chunk.choices[0].delta.content or ""
    assert text == "Hello wör"
    assert raised.value.code == "idle_timeout"


# Every error below is raised after as many attempts as it says: the client's own retries, on by default, add none.
TYPED = {
    "rate limit": (
        error(429, "slow down", "rate_limit_error", "rate_limit_exceeded"),
        openai.RateLimitError,
        "rate_limit_exceeded",
        ATTEMPTS,
    ),
    "rate limit beyond the cap": (
        error(429, "slow down", "rate_limit_error", "rate_limit_exceeded", retry_after="120"),
        openai.RateLimitError,
        "rate_limit_exceeded",
        1,
    ),
    "quota": (
        error(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        openai.RateLimitError,
        "insufficient_quota",
        1,
    ),
    "overflow": (
        error(
            400,
            "This model's maximum context length is 8192 tokens.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
        openai.BadRequestError,
        "context_length_exceeded",
        1,
    ),
    "overflow as a 500": (
        error(
            500,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            "upstream_error",
        ),
        openai.BadRequestError,
        "context_length_exceeded",
        1,
    ),
    "authentication": (
        error(401, "Incorrect API key provided", "invalid_request_error", "invalid_api_key"),
        openai.AuthenticationError,
        "invalid_api_key",
        1,
    ),
    "permission": (
        error(403, "not for you", "permission_error", "permission_denied"),
        openai.PermissionDeniedError,
        "permission_denied",
        1,
    ),
    "bad request": (
        error(400, "no such thing", "invalid_request_error", "unknown_parameter"),
        openai.BadRequestError,
        "unknown_parameter",
        1,
    ),
    "overloaded": (
        error(503, "busy", "server_error", "server_is_overloaded"),
        openai.InternalServerError,
        "server_is_overloaded",
        ATTEMPTS,
    ),
    "server error": (
        error(500, "oops", "server_error", "server_error"),
        openai.InternalServerError,
        "server_error",
        ATTEMPTS,
    ),
    "no answer": (HangUp(), openai.InternalServerError, "connection_broken", ATTEMPTS),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("reply", "error_type", "code", "attempts"), TYPED.values(), ids=TYPED.keys())
def test_typed(
    reply: Reply | HangUp,
    error_type: type[openai.APIStatusError],
    code: str,
    attempts: int,
    stream: bool,
    openai_client: OpenAI,
    provider: Provider,
) -> None:
    provider.play(reply)
    with pytest.raises(error_type) as raised:
        openai_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=stream)
    assert raised.value.code == code
    assert provider.asked() == attempts
    assert raised.value.response.headers["x-should-retry"] == "false"


def test_rate_limit_tells_how_long(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(error(429, "slow down", "rate_limit_error", retry_after="120"))
    with pytest.raises(openai.RateLimitError) as raised:
        openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    assert raised.value.response.headers["retry-after"] == "120"


def test_overflow_keeps_the_numbers(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(
        error(
            500,
            "This model's maximum context length is 8192 tokens. Your messages resulted in 9001 tokens.",
            "upstream_error",
        )
    )
    with pytest.raises(openai.BadRequestError, match="8192.*9001"):
        openai_client.chat.completions.create(model="gpt", messages=MESSAGES)


def test_error_says_where_how_often_and_no_keys(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(error(503, "busy today", "server_error"))
    with pytest.raises(openai.InternalServerError) as raised:
        openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    text = str(raised.value)
    assert "o/first" in text and f"after {ATTEMPTS} attempts" in text and "busy today" in text
    assert "sk-" not in text


def test_unknown_model(openai_client: OpenAI, provider: Provider) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-with-spare") as raised:
        openai_client.chat.completions.create(model="nobody", messages=MESSAGES)
    assert raised.value.code == "model_not_found"
    assert provider.requests == []


def test_wrong_client_key(start_gateway: Callable[..., Gateway], provider: Provider) -> None:
    gateway = start_gateway(keyed=True)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-somebody-else") as client:
        with pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="gpt", messages=MESSAGES)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
    assert provider.requests == []
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=CLIENT_KEY) as client:
        assert len(client.models.list().data) == 4
