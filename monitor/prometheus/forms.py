"""Prometheus' answer and error forms.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from monitor.prometheus.arithmetic import printed
from monitor.tsdb.window import Grid

_ERROR_TYPES = {429: "unavailable"}


def success(data: Any, warnings: list[str] | None = None) -> dict[str, Any]:
    """Return an answer that holds *data*."""
    answer = {"status": "success", "data": data}
    return {**answer, "warnings": warnings} if warnings else answer


def failure(status: int, text: str) -> dict[str, str]:
    """Return the body of an error with that HTTP status."""
    return {"status": "error", "errorType": _ERROR_TYPES.get(status, "bad_data"), "error": text}


def vector(result: bytes) -> Iterator[bytes]:
    """Yield the answer of an instant query."""
    return _data("vector", iter((result,)))


def matrix(result: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the answer of a range query."""
    return _data("matrix", result)


def scalar(value: float, at_ms: int) -> Iterator[bytes]:
    """Yield the answer of an instant query for a number."""
    return _data("scalar", iter((b"[%b,%b]" % (_seconds(at_ms), msgspec.json.encode(printed(value))),)))


def constant(value: float, grid: Grid) -> Iterator[bytes]:
    """Yield the answer of a range query for a number: one series without labels."""
    text = msgspec.json.encode(sample_text(value))
    times = range(grid.start_ms, grid.end_ms + 1, grid.step_ms)
    values = b",".join(b"[%b,%b]" % (_padded_seconds(ms), text) for ms in times)
    return matrix(iter((b'[{"metric":{},"values":[%b]}]' % values,)))


def sample_text(value: float) -> str:
    """Return a sample's value as Prometheus writes it: an exponent from 1e21 on and below 1e-6."""
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21) and size != float("inf"):
        return repr(value)
    return printed(value)


def _data(kind: str, result: Iterator[bytes]) -> Iterator[bytes]:
    yield b'{"status":"success","data":{"resultType":"%b","result":' % kind.encode()
    yield from result
    yield b"}}"


def _seconds(ms: int) -> bytes:
    return msgspec.json.encode(ms // 1000 if ms % 1000 == 0 else ms / 1000)


def _padded_seconds(ms: int) -> bytes:
    return b"%d" % (ms // 1000) if ms % 1000 == 0 else b"%d.%03d" % divmod(ms, 1000)
