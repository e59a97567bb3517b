"""The asynchronous clients of both packages, and many calls at a time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

import anthropic_replies as claude
import openai_replies as gpt
from gateway import ATTEMPTS, CLIENT_KEY, Gateway
from provider import Ending, Provider, Reply, document

LIMIT = 20.0
MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
ASK: dict[str, Any] = {"model": "claude", "max_tokens": 64, "messages": MESSAGES}


def openai_client(gateway: Gateway) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=CLIENT_KEY, timeout=LIMIT)


def anthropic_client(gateway: Gateway) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=gateway.url, api_key=CLIENT_KEY, timeout=LIMIT)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, LIMIT))


def test_openai_chat(gateway: Gateway, provider: Provider) -> None:
    provider.play(gpt.error(503, "busy", "server_error"), gpt.chat({"content": "Hello"}), gpt.chat_stream(gpt.TEXT))

    async def test() -> None:
        async with openai_client(gateway) as client:
            completion = await client.chat.completions.create(model="gpt", messages=MESSAGES)
            assert completion.choices[0].message.content == "Hello"
            stream = await client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
            text = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            assert "".join(text) == "Hello wörld"

    run(test())
    assert provider.asked() == 3


def test_openai_others(gateway: Gateway, provider: Provider) -> None:
    embedding = {"object": "embedding", "index": 0, "embedding": [0.5]}
    provider.play(
        document(gpt.response_object("completed", "Hello")),
        Reply(headers=gpt.EVENTS, body=gpt.responses_events("Hello", " wör", "ld")),
        document(
            {"object": "list", "model": "first", "data": [embedding], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        ),
    )

    async def test() -> None:
        async with openai_client(gateway) as client:
            assert (await client.responses.create(model="gpt", input="hi")).output_text == "Hello"
            async with client.responses.stream(model="gpt", input="hi") as stream:
                assert (await stream.get_final_response()).output_text == "Hello wörld"
            answer = await client.embeddings.create(model="gpt", input="hi", encoding_format="float")
            assert answer.data[0].embedding == [0.5]
            assert "gpt" in [model.id async for model in client.models.list()]

    run(test())


def test_openai_tool_call(gateway: Gateway, provider: Provider) -> None:
    provider.play(gpt.broken_chat_stream(gpt.CALL[:1], Ending.CUT), gpt.chat_stream(gpt.CALL, "tool_calls"))

    async def test() -> None:
        async with openai_client(gateway) as client:
            async with client.chat.completions.stream(model="gpt", messages=MESSAGES) as stream:
                calls = (await stream.get_final_completion()).choices[0].message.tool_calls
            assert calls is not None
            assert [(call.function.name, call.function.arguments) for call in calls] == [
                ("weather", '{"city": "Zürich"}')
            ]

    run(test())
    assert provider.asked() == 2


def test_openai_errors(gateway: Gateway, provider: Provider) -> None:
    provider.play(
        gpt.broken_chat_stream(gpt.TEXT[:-1], Ending.CUT),
        gpt.error(
            400,
            "This model's maximum context length is 8192 tokens.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
        gpt.error(429, "slow down", "rate_limit_error"),
    )

    async def test() -> None:
        async with openai_client(gateway) as client:
            text = ""
            with pytest.raises(openai.APIError, match="incomplete|broke"):
                async for chunk in await client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True):
                    text += chunk.choices[0].delta.content or ""
            assert text == "Hello wör"
            with pytest.raises(openai.BadRequestError) as overflow:
                await client.chat.completions.create(model="gpt", messages=MESSAGES)
            assert overflow.value.code == "context_length_exceeded"
            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(model="gpt", messages=MESSAGES)

    run(test())
    assert provider.asked() == 2 + ATTEMPTS


def test_anthropic_messages(gateway: Gateway, provider: Provider) -> None:
    provider.play(
        claude.error(529, "overloaded_error", "Overloaded"),
        claude.message({"type": "text", "text": "Hello"}),
        claude.message_stream((claude.TEXT_BLOCK, claude.TEXT), (claude.TOOL_BLOCK, claude.TOOL), reason="tool_use"),
        claude.message_stream((claude.TEXT_BLOCK, claude.TEXT)),
    )

    async def test() -> None:
        async with anthropic_client(gateway) as client:
            [block] = (await client.messages.create(**ASK)).content
            assert block.type == "text" and block.text == "Hello"
            async with client.messages.stream(**ASK) as stream:
                assert [text async for text in stream.text_stream] == ["Hello", " wör", "ld"]
                _, tool = (await stream.get_final_message()).content
                assert tool.type == "tool_use" and tool.input == {"city": "Zürich"}
            raw = await client.messages.create(**ASK, stream=True)
            assert [event.type async for event in raw][-1] == "message_stop"

    run(test())
    assert provider.asked() == 4


def test_anthropic_errors(gateway: Gateway, provider: Provider) -> None:
    provider.play(
        claude.broken_message_stream(claude.TEXT[:-1], Ending.CUT),
        claude.error(500, "api_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        claude.error(529, "overloaded_error", "Overloaded"),
    )

    async def test() -> None:
        async with anthropic_client(gateway) as client:
            async with client.messages.stream(**ASK) as stream:
                with pytest.raises(anthropic.APIStatusError):
                    await stream.until_done()
                [block] = stream.current_message_snapshot.content
                assert block.type == "text" and block.text == "Hello wör"
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
                await client.messages.create(**ASK)
            with pytest.raises(anthropic.OverloadedError):
                await client.messages.create(**ASK)

    run(test())
    assert provider.asked() == 2 + ATTEMPTS


def test_many_at_a_time(gateway: Gateway, provider: Provider) -> None:
    provider.play(gpt.chat_stream(gpt.TEXT))

    async def text(client: AsyncOpenAI) -> str:
        stream = await client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def test() -> None:
        async with openai_client(gateway) as client:
            assert await asyncio.gather(*(text(client) for _ in range(40))) == ["Hello wörld"] * 40

    run(test())
    assert provider.asked() == 40
