"""anthropic: messages, whole and streamed, with text and tool use, through the helper and raw."""

from typing import Any

from anthropic import Anthropic

from anthropic_replies import TEXT, TEXT_BLOCK, TOOL, TOOL_BLOCK, message, message_stream
from gateway import PROVIDER_KEY
from provider import Provider

ASK: dict[str, Any] = {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
WEATHER: Any = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def test_whole(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(message({"type": "text", "text": "Hello wörld"}))
    told = anthropic_client.messages.create(**ASK)
    [block] = told.content
    assert block.type == "text" and block.text == "Hello wörld"
    assert (told.stop_reason, told.usage.output_tokens) == ("end_turn", 4)
    assert provider.asked() == 1


def test_whole_tool_use(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(message({**TOOL_BLOCK, "input": {"city": "Zürich"}}, reason="tool_use"))
    told = anthropic_client.messages.create(**ASK, tools=[WEATHER])
    [block] = told.content
    assert block.type == "tool_use" and (block.name, block.input) == ("weather", {"city": "Zürich"})
    assert told.stop_reason == "tool_use"


def test_provider_gets_its_own_key_and_model(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(message({"type": "text", "text": "Hello"}))
    anthropic_client.messages.create(**ASK, extra_headers={"anthropic-beta": "some-beta"})
    [request] = provider.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["x-api-key"] == PROVIDER_KEY
    assert request.headers["anthropic-version"] == anthropic_client.default_headers["anthropic-version"]
    assert request.headers["anthropic-beta"] == "some-beta"
    assert request.body == {**ASK, "model": "first"}


def test_raw_stream(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(message_stream((TEXT_BLOCK, TEXT)))
    events = list(anthropic_client.messages.create(**ASK, stream=True))
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert "".join(delta.text for delta in deltas if delta.type == "text_delta") == "Hello wörld"
    assert provider.asked() == 1


def test_stream_helper(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(message_stream((TEXT_BLOCK, TEXT)))
    with anthropic_client.messages.stream(**ASK) as stream:
        assert list(stream.text_stream) == ["Hello", " wör", "ld"]
        told = stream.get_final_message()
    assert (told.id, told.stop_reason, told.usage.output_tokens) == ("msg_1", "end_turn", 4)


def test_stream_helper_with_tool_use(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(message_stream((TEXT_BLOCK, TEXT), (TOOL_BLOCK, TOOL), reason="tool_use"))
    with anthropic_client.messages.stream(**ASK, tools=[WEATHER]) as stream:
        told = stream.get_final_message()
    text, tool = told.content
    assert text.type == "text" and text.text == "Hello wörld"
    assert tool.type == "tool_use" and (tool.name, tool.input) == ("weather", {"city": "Zürich"})
    assert told.stop_reason == "tool_use"
    assert provider.asked() == 1


def test_thinking(anthropic_client: Anthropic, provider: Provider) -> None:
    thoughts = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "c2ln"}]
    provider.play(message_stream(({"type": "thinking", "thinking": "", "signature": ""}, thoughts), (TEXT_BLOCK, TEXT)))
    with anthropic_client.messages.stream(**ASK) as stream:
        thinking, text = stream.get_final_message().content
    assert thinking.type == "thinking" and (thinking.thinking, thinking.signature) == ("hm", "c2ln")
    assert text.type == "text" and text.text == "Hello wörld"


def test_whole_reply_becomes_the_stream_that_was_asked_for(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(
        message({"type": "text", "text": "Hello wörld"}, {**TOOL_BLOCK, "input": {"city": "Zürich"}}, reason="tool_use")
    )
    with anthropic_client.messages.stream(**ASK, tools=[WEATHER]) as stream:
        assert "".join(stream.text_stream) == "Hello wörld"
        told = stream.get_final_message()
    assert told.content[1].type == "tool_use" and told.content[1].input == {"city": "Zürich"}
    assert (told.id, told.stop_reason, told.usage.output_tokens) == ("msg_1", "tool_use", 4)
