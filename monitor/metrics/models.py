"""What metric queries take and give, as the API's description shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class InstantQuery(Struct, frozen=True):
    """Parameters of an instant query: ``metric`` or its alias ``selector``."""

    metric: Annotated[str | None, Meta(description="One vector selector")] = None
    selector: Annotated[str | None, Meta(description="Alias of metric")] = None


class RangeQuery(InstantQuery, frozen=True):
    """Parameters of a range query."""

    start: Annotated[float | None, Meta(description="Unix seconds; default: an hour before end")] = None
    end: Annotated[float | None, Meta(description="Unix seconds; default: now")] = None
    step: Annotated[str, Meta(description="A duration such as 15s, or seconds")] = "15s"


class InstantSample(Struct, frozen=True):
    """The newest sample of a series, no older than 5 minutes."""

    metric: dict[str, str]
    value: float


class Instant(Struct, frozen=True):
    """The answer of an instant query, ordered by labels."""

    series: list[InstantSample]
    count: int


class RangeSeries(Struct, frozen=True):
    """A series with its points ``[unix seconds, value]``."""

    metric: dict[str, str]
    values: list[tuple[float, float]]


class Range(Struct, frozen=True):
    """The answer of a range query, ordered by labels."""

    series: list[RangeSeries]
    count: int
