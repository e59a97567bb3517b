"""anthropic: what fails before the first output is made good, and the client sees nothing of it."""

from typing import Any

import pytest
from anthropic import Anthropic

from anthropic_replies import (
    TEXT,
    TEXT_BLOCK,
    block,
    broken_message_stream,
    end,
    error,
    error_object,
    event,
    message,
    message_stream,
)
from provider import Ending, HangUp, Provider, Reply

ASK: dict[str, Any] = {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
BLOCK_BEGUN = block(0, TEXT_BLOCK, [])[0]

BEFORE_OUTPUT = {
    "overloaded": error(529, "overloaded_error", "Overloaded"),
    "server error": error(500, "api_error", "oops"),
    "no answer": HangUp(),
    "cut after the start": broken_message_stream([], Ending.CUT),
    "ended after the start": broken_message_stream([], Ending.WHOLE),
    "cut after an empty block": broken_message_stream([], Ending.CUT, BLOCK_BEGUN),
    "overloaded in the stream": broken_message_stream(
        [], Ending.WHOLE, event(error_object("overloaded_error", "Overloaded"))
    ),
}


@pytest.mark.parametrize("failure", BEFORE_OUTPUT.values(), ids=BEFORE_OUTPUT.keys())
def test_stream(failure: Reply | HangUp, anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(failure, message_stream((TEXT_BLOCK, TEXT)))
    with anthropic_client.messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == "Hello wörld"
        assert stream.get_final_message().id == "msg_1"
    assert provider.asked() == 2


WHOLE = {
    "overloaded": error(529, "overloaded_error", "Overloaded"),
    "no answer": HangUp(),
    "cut": message({"type": "text", "text": "Hello"}, ending=Ending.CUT, id="msg_lost"),
}


@pytest.mark.parametrize("failure", WHOLE.values(), ids=WHOLE.keys())
def test_whole(failure: Reply | HangUp, anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(failure, message({"type": "text", "text": "Hello"}))
    assert anthropic_client.messages.create(**ASK).id == "msg_1"
    assert provider.asked() == 2


def test_next_candidate_answers(anthropic_client: Anthropic, provider: Provider) -> None:
    provider.play(error(529, "overloaded_error", "Overloaded"))
    provider.play(message_stream((TEXT_BLOCK, TEXT)), model="second")
    with anthropic_client.messages.stream(**{**ASK, "model": "claude-with-spare"}) as stream:
        assert "".join(stream.text_stream) == "Hello wörld"
        assert stream.response.headers["x-stanchion-candidate"] == "a/second"
    assert (provider.asked(), provider.asked("second")) == (3, 1)


def test_an_empty_turn_is_an_answer(anthropic_client: Anthropic, provider: Provider) -> None:
    # The model may end its turn without a word; to ask again would cost money and bring the same.
    provider.play(broken_message_stream([], Ending.WHOLE, *end("end_turn")))
    with anthropic_client.messages.stream(**ASK) as stream:
        assert stream.get_final_message().content == []
    assert provider.asked() == 1
