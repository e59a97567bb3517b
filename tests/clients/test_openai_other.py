"""openai: the Responses API, embeddings, and the list of models."""

import base64
import struct

import pytest
from openai import APIError, OpenAI

from openai_replies import EVENTS, error, response_object, responses_events
from provider import Ending, Provider, Reply, document

HEADS = 4  # The events of a response's stream before its first delta.


def test_response(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(document(response_object("completed", "Hello wörld")))
    response = openai_client.responses.create(model="gpt", input="hi")
    assert response.output_text == "Hello wörld"
    assert [request.path for request in provider.requests] == ["/v1/responses"]


def test_response_stream(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(Reply(headers=EVENTS, body=responses_events("Hello", " wör", "ld")))
    events = list(openai_client.responses.create(model="gpt", input="hi", stream=True))
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Hello", " wör", "ld"]
    assert events[-1].type == "response.completed" and events[-1].response.output_text == "Hello wörld"
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_response_stream_helper(openai_client: OpenAI, provider: Provider) -> None:
    provider.play(Reply(headers=EVENTS, body=responses_events("Hello", " wör", "ld")))
    with openai_client.responses.stream(model="gpt", input="hi") as stream:
        assert stream.get_final_response().output_text == "Hello wörld"


def test_response_stream_is_retried_before_output(openai_client: OpenAI, provider: Provider) -> None:
    events = responses_events("Hello", " wör", "ld")
    provider.play(
        error(500, "oops", "server_error"),
        Reply(headers=EVENTS, body=events[:HEADS], ending=Ending.CUT),
        Reply(headers=EVENTS, body=events),
    )
    told = list(openai_client.responses.create(model="gpt", input="hi", stream=True))
    assert len(told) == len(events)
    assert provider.asked() == 3


@pytest.mark.parametrize("ending", [Ending.WHOLE, Ending.CUT], ids=lambda ending: ending.name.lower())
def test_late_failure_of_a_response(ending: Ending, openai_client: OpenAI, provider: Provider) -> None:
    provider.play(Reply(headers=EVENTS, body=responses_events("Hello", " wör", "ld")[: HEADS + 2], ending=ending))
    text = ""
    with pytest.raises(APIError) as raised:
        for event in openai_client.responses.create(model="gpt", input="hi", stream=True):
            assert event.type != "response.completed"
            text += event.delta if event.type == "response.output_text.delta" else ""
    assert text == "Hello wör"
    assert raised.value.code in {"stream_truncated", "connection_broken"}
    assert provider.asked() == 1


def test_embeddings(openai_client: OpenAI, provider: Provider) -> None:
    # Asked for nothing in particular, the client itself asks for base64 and decodes it.
    numbers = base64.b64encode(struct.pack("<3f", 0.5, -1.0, 2.0)).decode()
    provider.play(
        error(503, "busy", "server_error"),
        document(
            {
                "object": "list",
                "model": "first",
                "data": [{"object": "embedding", "index": 0, "embedding": numbers}],
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }
        ),
    )
    answer = openai_client.embeddings.create(model="gpt", input="hi")
    assert answer.data[0].embedding == [0.5, -1.0, 2.0]
    assert [request.path for request in provider.requests] == ["/v1/embeddings"] * 2
    assert provider.requests[0].body["encoding_format"] == "base64"


def test_models(openai_client: OpenAI, provider: Provider) -> None:
    names = {model.id for model in openai_client.models.list()}
    assert names == {"gpt", "gpt-with-spare", "claude", "claude-with-spare"}
    assert provider.requests == []
