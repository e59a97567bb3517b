"""openai: chat completions, whole and streamed, with text and tool calls."""

import json
from typing import Any

from openai import OpenAI

from gateway import PROVIDER_KEY
from openai_replies import CALL, TEXT, chat, chat_stream
from provider import Provider

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_whole(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat({"content": "Hello wörld"}))
    completion = openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    assert completion.choices[0].message.content == "Hello wörld"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None and completion.usage.total_tokens == 7
    assert provider.asked() == 1


def test_provider_gets_its_own_key_and_model(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat({"content": "Hello"}))
    openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    [request] = provider.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert request.body == {"model": "first", "messages": MESSAGES}


def test_reply_tells_candidate_and_attempts(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat({"content": "Hello"}))
    reply = openai_client.chat.completions.with_raw_response.create(model="gpt", messages=MESSAGES)
    assert reply.headers["x-stanchion-candidate"] == "o/first"
    assert reply.headers["x-stanchion-attempts"] == "1"


def test_stream(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat_stream(TEXT))
    stream = openai_client.chat.completions.create(
        model="gpt", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello wörld"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 4
    assert provider.asked() == 1


def test_stream_helper(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat_stream(TEXT))
    with openai_client.chat.completions.stream(model="gpt", messages=MESSAGES) as stream:
        assert "".join(event.delta for event in stream if event.type == "content.delta") == "Hello wörld"
        assert stream.get_final_completion().choices[0].message.content == "Hello wörld"


def test_whole_reply_becomes_the_stream_that_was_asked_for(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat({"content": "Hello wörld"}))
    # As with the API itself, every chunk has a choice: nobody asked for a chunk that holds only the usage.
    chunks = list(openai_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))
    assert [len(chunk.choices) for chunk in chunks] == [1] * len(chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello wörld"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_connection_is_used_again(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat_stream(TEXT), chat({"content": "again"}))
    list(openai_client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))
    completion = openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    assert completion.choices[0].message.content == "again"


def test_tool_call(openai_client: OpenAI, provider: Provider) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}
    provider.play(chat({"content": None, "tool_calls": [call]}, "tool_calls"))
    completion = openai_client.chat.completions.create(model="gpt", messages=MESSAGES, tools=[WEATHER])
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.choices[0].message.tool_calls is not None
    [told] = completion.choices[0].message.tool_calls
    assert told.type == "function" and told.function.name == "weather"
    assert json.loads(told.function.arguments) == {"city": "Zürich"}


def test_tool_call_stream(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(chat_stream(CALL, "tool_calls"))
    with openai_client.chat.completions.stream(model="gpt", messages=MESSAGES, tools=[WEATHER]) as stream:
        completion = stream.get_final_completion()
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.choices[0].message.tool_calls is not None
    [told] = completion.choices[0].message.tool_calls
    assert (told.id, told.function.name) == ("call_1", "weather")
    assert json.loads(told.function.arguments) == {"city": "Zürich"}
    assert provider.asked() == 1
