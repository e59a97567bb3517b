"""A provider that says what a test tells it to say: raw HTTP/1.1 on a loopback port, and a note of every request."""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self


class Ending(Enum):
    """What happens once the last piece is out."""

    WHOLE = "the body ends as HTTP wants it to"
    CUT = "the connection closes in the middle of the body"
    SILENT = "nothing more comes, until the other side leaves"


@dataclass(frozen=True)
class Reply:
    """One scripted answer. A list of pieces is streamed, each in a chunk of its own; bytes go out with their length."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | list[bytes] = b""
    ending: Ending = Ending.WHOLE


def document(value: Any, status: int = 200, ending: Ending = Ending.WHOLE, headers: Mapping[str, str] = {}) -> Reply:
    return Reply(status, {"content-type": "application/json", **headers}, json.dumps(value).encode(), ending)


def dashed(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as keyword arguments spell them, as HTTP spells them."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


class HangUp:
    """The connection closes before anything is said."""


@dataclass(frozen=True)
class Request:
    """What the provider was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Provider:
    """Plays its script for each model; the last answer is repeated, so that an attempt too many shows in the count."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._scripts: dict[str, list[Reply | HangUp]] = {}
        self._played: defaultdict[str, int] = defaultdict(int)
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provider")
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        start = asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def play(self, *replies: Reply | HangUp, model: str = "first") -> None:
        """Sets the script of a model, in place of the one before."""
        self._scripts[model] = list(replies)
        self._played[model] = 0

    def asked(self, model: str = "first") -> int:
        """How many attempts the provider saw for a model."""
        return sum(request.body.get("model") == model for request in self.requests)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await _read(reader)) is not None:
                if not await _answer(self._next(request), reader, writer):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass  # The gateway may leave whenever it likes, and the test may end.
        finally:
            self._connections.discard(task)
            writer.close()

    def _next(self, request: Request) -> Reply | HangUp:
        self.requests.append(request)
        model = request.body.get("model")
        script = self._scripts.get(model)
        if script is None:
            # Terminal for the gateway, so that the test fails with these words.
            return document({"error": {"message": "no script for this model"}}, 404)
        played = self._played[model]
        self._played[model] += 1
        return script[min(played, len(script) - 1)]


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    # The gateway collects a request before it sends it, so its length is always known.
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, json.loads(body) if body else {})


async def _answer(reply: Reply | HangUp, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection can be used again."""
    if isinstance(reply, HangUp):
        return False
    whole = reply.ending is Ending.WHOLE
    if isinstance(reply.body, bytes):
        writer.write(_head(reply, f"content-length: {len(reply.body)}"))
        # Half of a body whose length was promised is how a cut document looks.
        writer.write(reply.body if whole else reply.body[: len(reply.body) // 2])
    else:
        writer.write(_head(reply, "transfer-encoding: chunked"))
        for piece in reply.body:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        if whole:
            writer.write(b"0\r\n\r\n")
    await writer.drain()
    if reply.ending is Ending.SILENT:
        await reader.read()
    return whole


def _head(reply: Reply, length: str) -> bytes:
    headers = (f"{name}: {value}" for name, value in reply.headers.items())
    return "\r\n".join([f"HTTP/1.1 {reply.status} Scripted", *headers, length, "", ""]).encode("latin-1")
