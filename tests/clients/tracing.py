"""OpenTelemetry on in the clients: spans that are kept in memory, and a `traceparent` with each request."""

import os
from typing import Any

# A second run of all the tests has it on: see `run`.
TRACED = os.environ.get("STANCHION_TRACED") == "1"

if TRACED:
    from opentelemetry import propagate, trace
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    _KEPT = InMemorySpanExporter()

    def switch_on() -> None:
        """For the whole process. The anthropic client traces by itself, the openai client by its instrumentation."""
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(_KEPT))
        trace.set_tracer_provider(provider)
        OpenAIInstrumentor().instrument()

    def take_spans() -> tuple[ReadableSpan, ...]:
        """What has ended since the last time."""
        spans = _KEPT.get_finished_spans()
        _KEPT.clear()
        return spans

    def _inject(request: Any) -> None:
        propagate.inject(request.headers)

    # The openai client's own HTTP client is not instrumented by anybody yet: the header is set as the API of OpenTelemetry has it.
    HOOKS: dict[str, list[Any]] = {"request": [_inject]}
else:
    HOOKS = {}
