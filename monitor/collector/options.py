"""What the options of ``monitor agent`` may say: each is checked, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import click
from yarl import URL

from monitor.wire.duration import parse_duration

DOCKER_SCHEMES = ("unix", "tcp", "http", "https")
LONGEST_INTERVAL_SECONDS = 60.0  # the service takes an agent for offline after 90 s
SHORTEST_INTERVAL_SECONDS = 1.0  # pushes closer than this make no rates
NAME_BYTES = 1_024  # the service refuses longer ones


def interval_seconds(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Return the seconds of a duration such as ``15s``, between 1s and 60s."""
    seconds = span_seconds(ctx, param, text)
    if not SHORTEST_INTERVAL_SECONDS <= seconds <= LONGEST_INTERVAL_SECONDS:
        raise click.BadParameter(f"{text!r} is not between 1s and 60s", ctx, param)
    return seconds


def span_seconds(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Return the seconds of a duration such as ``90s``."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def since_seconds(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Return the seconds of ``now`` or of a duration such as ``1h``."""
    return 0.0 if text == "now" else span_seconds(ctx, param, text)


def globs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the globs, none of them empty."""
    if not all(texts):
        raise click.BadParameter("must not be empty", ctx, param)
    return texts


def service_url(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return the address, which has a scheme, a host and at most a path, without a trailing slash."""
    if text is None:
        return None
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host or url.user or url.query_string or url.fragment:
        raise click.BadParameter(
            f"{text!r} is not an address such as https://monitor.example.com", ctx, param
        )
    return str(url).rstrip("/")


def short_text(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return a name that the service takes."""
    if text is None:
        return None
    if not text.strip() or "\0" in text:
        raise click.BadParameter("must not be empty", ctx, param)
    if len(text.encode(errors="replace")) > NAME_BYTES:
        raise click.BadParameter(f"is longer than {NAME_BYTES} bytes", ctx, param)
    return text


def engine_address(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """Return the engine's address, as DOCKER_HOST writes it."""
    scheme, _, rest = text.partition("://")
    if scheme not in DOCKER_SCHEMES or not rest:
        raise click.BadParameter(
            f"{text!r} is not unix:///path, tcp://host:port or http(s)://host:port", ctx, param
        )
    return text


def read_key_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    """Return the key that *path* holds, without surrounding white space."""
    if path is None:
        return None
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", ctx, param) from error
    if not key:
        raise click.BadParameter(f"{path} is empty", ctx, param)
    return key


def first_state_dir(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    """Return the state directory; systemd's STATE_DIRECTORY may list several."""
    if not value:
        raise click.BadParameter("must not be empty", ctx, param)
    return Path(value.split(":", 1)[0])
