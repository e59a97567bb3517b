"""What Anthropic says."""

import json
from typing import Any

from provider import Ending, Reply, dashed, document

EVENTS = {"content-type": "text/event-stream; charset=utf-8"}

Piece = dict[str, Any]

TEXT_BLOCK: Piece = {"type": "text", "text": ""}
TEXT: list[Piece] = [{"type": "text_delta", "text": text} for text in ("Hello", " wör", "ld")]
TOOL_BLOCK: Piece = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
TOOL: list[Piece] = [{"type": "input_json_delta", "partial_json": text} for text in ("", '{"city": "Zü', 'rich"}')]


def error_object(kind: str, message: str, **details: str) -> Piece:
    return {"type": "error", "error": {"type": kind, "message": message, **({"details": details} if details else {})}}


def error(status: int, kind: str, message: str, **headers: str) -> Reply:
    """Headers are given with underscores."""
    return document(error_object(kind, message), status, headers=dashed(headers))


def event(value: Piece) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def start(id: str = "msg_1") -> bytes:
    message: Piece = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "first",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    return event({"type": "message_start", "message": message})


PING = event({"type": "ping"})


def block(index: int, begin: Piece, deltas: list[Piece]) -> list[bytes]:
    return [
        event({"type": "content_block_start", "index": index, "content_block": begin}),
        *(event({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        event({"type": "content_block_stop", "index": index}),
    ]


def end(reason: str) -> list[bytes]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 4}}),
        event({"type": "message_stop"}),
    ]


def message_stream(*blocks: tuple[Piece, list[Piece]], reason: str = "end_turn") -> Reply:
    pieces = [piece for index, (begin, deltas) in enumerate(blocks) for piece in block(index, begin, deltas)]
    return Reply(headers=EVENTS, body=[start(), PING, *pieces, *end(reason)])


def broken_message_stream(deltas: list[Piece], ending: Ending, *more: bytes) -> Reply:
    """A stream that ends, one way or the other, in the middle of its block, or before it if there are no deltas."""
    pieces = block(0, TEXT_BLOCK, deltas)[:-1] if deltas else []
    return Reply(headers=EVENTS, body=[start("msg_lost"), PING, *pieces, *more], ending=ending)


def message(*content: Piece, reason: str = "end_turn", ending: Ending = Ending.WHOLE, id: str = "msg_1") -> Reply:
    return document(
        {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": "first",
            "content": list(content),
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 4},
        },
        ending=ending,
    )
