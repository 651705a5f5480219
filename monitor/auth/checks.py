"""What may be an organization's, a user's or a key's anything; pure.

The command line and the settings check their input with the same functions.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

from monitor.auth.models import EMAIL_MAX, NAME_MAX, PASSWORD_MAX, Plan, Role
from monitor.errors import BadRequest
from monitor.wire.duration import format_duration, parse_duration

DAY_SECONDS = 86_400
RETENTION_MIN_SECONDS = 1
RETENTION_MAX_SECONDS = 100 * 365 * DAY_SECONDS  # "for ever", and far below any overflow

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def checked_name(name: str) -> str:
    """Return *name* trimmed.

    Raises:
        BadRequest: It is empty, too long or holds control characters.
    """
    name = name.strip()
    if not name:
        raise BadRequest("name: must not be empty", field="name")
    if len(name) > NAME_MAX:
        raise BadRequest(f"name: must be at most {NAME_MAX} characters", field="name")
    if not _is_text(name):
        raise BadRequest("name: must not hold control characters", field="name")
    return name


def checked_email(email: str) -> str:
    """Return *email* as it is stored: trimmed, in lower case.

    Raises:
        BadRequest: It has no form ``name@domain``.
    """
    email = email.strip().lower()
    if len(email) > EMAIL_MAX or not _EMAIL.fullmatch(email) or not _is_text(email):
        raise BadRequest(f"email: expected name@domain of at most {EMAIL_MAX} characters", field="email")
    return email


def checked_password(password: str) -> str:
    """Return a *password* that an operator chose; users choose longer ones (contract 2).

    Raises:
        BadRequest: It is empty or longer than 1024 characters.
    """
    if not 1 <= len(password) <= PASSWORD_MAX:
        raise BadRequest(f"password: must have 1 to {PASSWORD_MAX} characters", field="password")
    return password


def checked_plan(plan: str) -> Plan:
    """Return *plan*.

    Raises:
        BadRequest: There is no such plan.
    """
    try:
        known: Plan = msgspec.convert(plan, Plan)
    except msgspec.ValidationError:
        raise BadRequest("plan: expected free, pro or enterprise", field="plan") from None
    return known


def checked_role(role: str) -> Role:
    """Return *role*.

    Raises:
        BadRequest: There is no such role.
    """
    try:
        known: Role = msgspec.convert(role, Role)
    except msgspec.ValidationError:
        raise BadRequest("role: expected viewer, member or admin", field="role") from None
    return known


def retention_seconds(duration: str, *, field: str) -> int:
    """Return a retention such as ``30d`` in whole seconds.

    Raises:
        BadRequest: No duration, or outside one second to a hundred years.
    """
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise BadRequest(f"{field}: {error}", field=field) from None
    if not RETENTION_MIN_SECONDS <= seconds <= RETENTION_MAX_SECONDS:
        raise BadRequest(f"{field}: must be from 1s to 100y", field=field)
    return int(seconds)


def retention_text(seconds: int) -> str:
    """Return a retention as it is written: in days where it has whole days, ``7d`` and not ``1w``."""
    days, rest = divmod(seconds, DAY_SECONDS)
    return format_duration(seconds) if rest else f"{days}d"


def _is_text(text: str) -> bool:
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
