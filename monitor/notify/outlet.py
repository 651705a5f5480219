"""The way out to the receivers: HTTP and the mail server, bounded in time and size.

No redirects, no proxies, no cookies.  Of an answer only the status is read: what a
receiver says is never shown.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Mapping
from email.message import EmailMessage
from typing import TYPE_CHECKING

import aiohttp
import aiosmtplib
from aiohttp import web

from monitor import __version__
from monitor.notify.guard import REFUSAL, PrivateTarget, open_socket, socket_factory

if TYPE_CHECKING:
    from monitor.config import Config, Notifications

EXCHANGE_SECONDS = 10.0  # a receiver that needs longer to take a message is away
CONNECTIONS = 32  # at once, of one process
HEAD_LINE_BYTES = 8_190  # the longest line of an answer's head
MALFORMED = frozenset((400, 413, 422))  # about the message; all else is about the channel


class NotDelivered(Exception):
    """A receiver did not take a message; the text is for the organization's admins.

    Attributes:
        malformed: The receiver takes no such message, but perhaps others.
    """

    def __init__(self, text: str, *, malformed: bool = False) -> None:
        super().__init__(text)
        self.malformed = malformed


class Outlet:
    """Sends to receivers; one per process."""

    def __init__(self, settings: Notifications) -> None:
        self.settings = settings
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                socket_factory=socket_factory(allow_private=settings.allow_private_targets),
                limit=CONNECTIONS,
                force_close=True,
            ),
            timeout=aiohttp.ClientTimeout(total=EXCHANGE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=HEAD_LINE_BYTES,
            max_field_size=HEAD_LINE_BYTES,
            headers={"User-Agent": f"monitor/{__version__}"},
        )

    async def close(self) -> None:
        """Close what is open."""
        await self._session.close()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """POST *body*; return if the receiver answers 2xx.

        Raises:
            NotDelivered: It is private, away, or answers anything else.
        """
        try:
            # A file is sent piece by piece: a message of long labels may have megabytes.
            async with self._session.post(
                url, data=io.BytesIO(body), headers=headers, allow_redirects=False
            ) as answer:
                status = answer.status
                answer.close()  # unread
        except TimeoutError:
            raise NotDelivered(f"no answer within {EXCHANGE_SECONDS:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NotDelivered(_reason(error)) from error
        if 300 <= status < 400:
            raise NotDelivered(f"the receiver answered {status}: redirects are not followed")
        if not 200 <= status < 300:
            raise NotDelivered(f"the receiver answered {status}", malformed=status in MALFORMED)

    async def mail(self, message: EmailMessage, recipients: list[str]) -> None:
        """Hand *message* to the configured mail server, which must take it for all *recipients*.

        Raises:
            NotDelivered: There is none, it is private or away, or it refuses.
        """
        smtp = self.settings.smtp
        if not smtp.host or not smtp.sender:
            raise NotDelivered("the configuration names no mail server")
        factory = socket_factory(allow_private=smtp.allow_private or self.settings.allow_private_targets)
        client: aiosmtplib.SMTP | None = None
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS):
                sock = await open_socket(smtp.host, smtp.port, factory)
                client = aiosmtplib.SMTP(sock=sock, start_tls=False, timeout=EXCHANGE_SECONDS)
                await client.connect()
                if smtp.starttls:
                    await client.starttls(server_hostname=smtp.host)
                if smtp.username and smtp.password:
                    await client.login(smtp.username, smtp.password)
                refused, _ = await client.send_message(message, sender=smtp.sender, recipients=recipients)
                await client.quit()
        except TimeoutError:
            raise NotDelivered(f"the mail server gave no answer within {EXCHANGE_SECONDS:.0f} s") from None
        except aiosmtplib.SMTPResponseException as error:
            raise NotDelivered(f"the mail server answered {error.code}") from error
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise NotDelivered("the mail server refused every recipient") from error
        except (aiosmtplib.SMTPException, OSError) as error:
            text = str(error) if isinstance(error, PrivateTarget) else "no connection to the mail server"
            raise NotDelivered(f"mail server: {text}") from error
        finally:
            if client is not None:
                client.close()
        if refused:
            raise NotDelivered(f"the mail server refused {', '.join(sorted(refused))}")


def _reason(error: Exception) -> str:
    """Return what is wrong, without a word of the receiver or the resolver."""
    if isinstance(error, aiohttp.ClientConnectorError) and REFUSAL in str(error.os_error):
        # Of several addresses the errors come joined in one text.
        return REFUSAL
    if isinstance(error, aiohttp.InvalidURL):
        return "the URL cannot be used"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name cannot be resolved"
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ClientConnectorCertificateError):
        return "no TLS connection: the certificate or the protocol does not fit"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "no connection"
    return "the connection broke, or the answer is no HTTP"


OUTLET: web.AppKey[Outlet] = web.AppKey("OUTLET", Outlet)


def outlet_context(config: Config) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return the cleanup context that keeps the outlet while the app lives."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        app[OUTLET] = Outlet(config.notifications)
        yield
        await app[OUTLET].close()

    return context
