"""What an OpenAI-compatible provider says."""

import json
from typing import Any

from provider import Ending, Reply, dashed, document

EVENTS = {"content-type": "text/event-stream"}

Piece = dict[str, Any]

ROLE: Piece = {"role": "assistant", "content": ""}
TEXT: list[Piece] = [ROLE, {"content": "Hello"}, {"content": " wör"}, {"content": "ld"}]
CALL: list[Piece] = [
    {"role": "assistant", "content": None},
    {
        "tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        ]
    },
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Zü'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": 'rich"}'}}]},
]


def error(status: int, message: str, kind: str, code: str | None = None, **headers: str) -> Reply:
    """Headers are given with underscores."""
    return document(
        {"error": {"message": message, "type": kind, "param": None, "code": code}}, status, headers=dashed(headers)
    )


def sse(value: Any, event: str | None = None) -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def chunk(delta: Piece, finish: str | None = None, id: str = "chatcmpl-1") -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": id, "object": "chat.completion.chunk", "created": 1, "model": "first", "choices": [choice]})


def chat_stream(deltas: list[Piece], finish: str = "stop", id: str = "chatcmpl-1") -> Reply:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    last = {"id": id, "object": "chat.completion.chunk", "created": 1, "model": "first", "choices": [], "usage": usage}
    return Reply(
        headers=EVENTS,
        body=[*(chunk(delta, id=id) for delta in deltas), chunk({}, finish, id), sse(last), b"data: [DONE]\n\n"],
    )


def broken_chat_stream(deltas: list[Piece], ending: Ending, *more: bytes, id: str = "chatcmpl-lost") -> Reply:
    """A stream that ends, one way or the other, without a finish and without its end marker."""
    return Reply(headers=EVENTS, body=[*(chunk(delta, id=id) for delta in deltas), *more], ending=ending)


def chat(message: Piece, finish: str = "stop", ending: Ending = Ending.WHOLE, id: str = "chatcmpl-1") -> Reply:
    return document(
        {
            "id": id,
            "object": "chat.completion",
            "created": 1,
            "model": "first",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        },
        ending=ending,
    )


def response_object(status: str, text: str | None = None) -> Piece:
    """The object of the Responses API, with one message in it once there is text."""
    content: list[Piece] = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "first",
        "output": [message] if text is not None else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def responses_events(*deltas: str) -> list[bytes]:
    """The events of a response's stream, from its creation to its completion."""
    text = "".join(deltas)
    place: Piece = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item: Piece = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    part: Piece = {"type": "output_text", "text": "", "annotations": []}
    whole = response_object("completed", text)
    events: list[Piece] = [
        {"type": "response.created", "response": response_object("in_progress")},
        {"type": "response.in_progress", "response": response_object("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": delta, "logprobs": []} for delta in deltas),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]},
        {"type": "response.completed", "response": whole},
    ]
    return [sse({**event, "sequence_number": number}, event["type"]) for number, event in enumerate(events)]
