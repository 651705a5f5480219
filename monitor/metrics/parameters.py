"""Parameters of a query, from the URL and from a form, alike.

A parameter may be repeated only with one value: of two different ones neither
could be meant more than the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl

from aiohttp import web

from monitor.errors import BadRequest, UnsupportedMediaType
from monitor.tsdb.selector import Selector, parse
from monitor.web.codec import read_bytes

FORM_BYTES = 256 * 1024  # some twenty selectors of the longest kind
MOST_PARAMETERS = 1_000
FORM_TYPE = "application/x-www-form-urlencoded"


class Parameters:
    """Names with their values, as they were given."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def all(self, name: str) -> list[str]:
        """Return every value of *name*, in the order given."""
        return self._values.get(name, [])

    def one(self, *names: str) -> str | None:
        """Return the value given under any of *names*, None if there is none.

        Raises:
            BadRequest: There are different ones.
        """
        given = {value: name for name in reversed(names) for value in self.all(name)}
        if len(given) > 1:
            name = next(name for name in names if name in self._values)
            raise BadRequest(f"{name}: given with different values", field=name)
        return next(iter(given), None)

    def selector(self, *names: str) -> Selector:
        """Return the selector given under one of *names*.

        Raises:
            BadRequest: None is given, different ones are, or it is no selector.
        """
        text = self.one(*names)
        if text is None:
            raise BadRequest(f"{names[0]}: required", field=names[0])
        return parse(text, field=next(name for name in names if name in self._values))


async def read_parameters(request: web.Request) -> Parameters:
    """Return the parameters of the URL and, of a POST, those of its form.

    Raises:
        BadRequest: They are not UTF-8, or too many.
        PayloadTooLarge: The form is above 256 KiB.
        UnsupportedMediaType: The body is something else than a form.
    """
    pairs = _pairs(request.rel_url.raw_query_string, "query")
    if request.method == "POST":
        body = await read_bytes(request, limit=FORM_BYTES)
        if body:
            if request.content_type != FORM_TYPE:
                raise UnsupportedMediaType(f"content type: expected {FORM_TYPE}")
            try:
                pairs += _pairs(body.decode(), "body")
            except UnicodeDecodeError:
                raise BadRequest("body: not valid UTF-8") from None
    return Parameters(pairs)


def _pairs(text: str, where: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except UnicodeDecodeError:
        raise BadRequest(f"{where}: not valid UTF-8") from None
    except ValueError:
        raise BadRequest(f"{where}: more than {MOST_PARAMETERS:,} parameters") from None
