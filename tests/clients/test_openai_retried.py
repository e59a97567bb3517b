"""openai: what fails before the first output is made good, and the client sees nothing of it."""

from collections.abc import Callable
from typing import Any

import pytest
from openai import OpenAI

from gateway import CLIENT_KEY, Gateway
from openai_replies import ROLE, TEXT, broken_chat_stream, chat, chat_stream, error, sse
from provider import Ending, HangUp, Provider, Reply

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]

BEFORE_OUTPUT = {
    "overloaded": error(503, "busy", "server_error"),
    "server error": error(500, "oops", "server_error"),
    "rate limit": error(429, "slow down", "rate_limit_error", "rate_limit_exceeded", retry_after_ms="20"),
    "page": Reply(502, {"content-type": "text/html"}, b"<html>Bad Gateway</html>"),
    "no answer": HangUp(),
    "cut after the role": broken_chat_stream([ROLE], Ending.CUT),
    "ended after the role": broken_chat_stream([ROLE], Ending.WHOLE),
    "error in the stream": broken_chat_stream(
        [ROLE], Ending.WHOLE, sse({"error": {"message": "oops", "type": "server_error"}})
    ),
    "nothing but an end": broken_chat_stream([], Ending.WHOLE, b"data: [DONE]\n\n"),
}


@pytest.mark.parametrize("failure", BEFORE_OUTPUT.values(), ids=BEFORE_OUTPUT.keys())
def test_stream(failure: Reply | HangUp, openai_client: OpenAI, provider: Provider) -> None:
    provider.play(failure, chat_stream(TEXT))
    chunks = list(openai_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello wörld"
    assert {chunk.id for chunk in chunks} == {"chatcmpl-1"}
    assert provider.asked() == 2


WHOLE = {
    "overloaded": error(503, "busy", "server_error"),
    "no answer": HangUp(),
    "cut": chat({"content": "Hello"}, ending=Ending.CUT, id="chatcmpl-lost"),
    "empty": Reply(200, {"content-type": "application/json"}, b""),
}


@pytest.mark.parametrize("failure", WHOLE.values(), ids=WHOLE.keys())
def test_whole(failure: Reply | HangUp, openai_client: OpenAI, provider: Provider) -> None:
    provider.play(failure, chat({"content": "Hello"}))
    completion = openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    assert (completion.id, completion.choices[0].message.content) == ("chatcmpl-1", "Hello")
    assert provider.asked() == 2


def test_next_candidate_answers(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(error(503, "busy", "server_error"))
    provider.play(chat_stream(TEXT), model="second")
    reply = openai_client.chat.completions.with_raw_response.create(
        model="gpt-with-spare", messages=MESSAGES, stream=True
    )
    chunks = list(reply.parse())
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello wörld"
    assert reply.headers["x-stanchion-candidate"] == "o/second"
    assert (provider.asked(), provider.asked("second")) == (3, 1)


def test_silent_candidate_is_left(start_gateway: Callable[..., Gateway], provider: Provider) -> None:
    provider.play(broken_chat_stream([ROLE], Ending.SILENT))
    provider.play(chat({"content": "Hello"}), chat_stream(TEXT), model="second")
    gateway = start_gateway(first_output="200ms")
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=CLIENT_KEY) as client:
        completion = client.chat.completions.create(model="gpt-with-spare", messages=MESSAGES)
        assert completion.choices[0].message.content == "Hello"
    assert (provider.asked(), provider.asked("second")) == (1, 1)
