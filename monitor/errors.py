"""Every deliberate error of the service, with the status it becomes.

Raise these anywhere; ``web.errors`` is the one place where they turn into a
response.  The text is shown to the caller: it never holds SQL, an upstream's
words, or another organization's anything.
"""

from __future__ import annotations


class ServiceError(Exception):
    """An error that the caller is told about.

    Attributes:
        status: HTTP status of the response.
        text: What stands in the body's ``error`` key.
        field: Path of the offending input, or None.
        retry_after_seconds: Value of the ``Retry-After`` header, or None.
    """

    status = 500
    text = "internal_error"
    retry_after_seconds: int | None = None

    def __init__(
        self,
        text: str | None = None,
        *,
        field: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        self.text = text or type(self).text
        self.field = field
        if retry_after_seconds is not None:
            self.retry_after_seconds = retry_after_seconds
        super().__init__(self.text)


class BadRequest(ServiceError):
    """The input is malformed or invalid; the text says which field and why."""

    status = 400
    text = "bad_request"


class Unauthorized(ServiceError):
    """No valid credential; the cause is never told."""

    status = 401
    text = "unauthorized"


class InvalidCredentials(ServiceError):
    """A failed login: unknown e-mail and wrong password alike."""

    status = 401
    text = "invalid_credentials"


class OrgSuspended(ServiceError):
    """The credential is good, its organization is suspended."""

    status = 402
    text = "org_suspended"


class Forbidden(ServiceError):
    """The credential is good, its role or plan does not allow this."""

    status = 403
    text = "forbidden"


class NotFound(ServiceError):
    """Unknown to the caller's organization."""

    status = 404
    text = "not_found"


class Conflict(ServiceError):
    """The request contradicts what is stored."""

    status = 409
    text = "conflict"


class Gone(ServiceError):
    """It was there and has ended."""

    status = 410
    text = "gone"


class PayloadTooLarge(ServiceError):
    """The body, before or after decompression, is above its limit."""

    status = 413
    text = "payload_too_large"


class UnsupportedMediaType(ServiceError):
    """A content type or encoding that is not accepted here."""

    status = 415
    text = "unsupported_media_type"


class TooManyRequests(ServiceError):
    """A limit of the organization or of the login is reached."""

    status = 429
    text = "too_many_requests"
    retry_after_seconds = 15


class StorageUnavailable(ServiceError):
    """Postgres or VictoriaMetrics cannot be reached, or the backlog is full."""

    status = 503
    text = "storage_unavailable"
    retry_after_seconds = 5
