"""The way out: nothing private is reached by any spelling, and no answer is trusted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from email.message import EmailMessage
from typing import Any

import pytest

from monitor.config import Notifications, Smtp
from monitor.notify import outlet as outlet_module
from monitor.notify.guard import REFUSAL
from monitor.notify.outlet import NotDelivered, Outlet
from tests.notify.receivers import Receiver

# Ways to write this machine; with private targets allowed each of them gets there.
LOOPBACK = [
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "0x7f000001",
    "0x7f.0.0.1",
    "0.0.0.0",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "①②⑦.⓪.⓪.①",
]
# Ways to write it, and 169.254.169.254, that the HTTP client takes for no host at all.
ODD = ["2130706433", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "0", "2852039166"]
# Private all the same, if there is something there.
ELSEWHERE = [
    "[::1]",
    "[::]",
    "[::127.0.0.1]",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "0xa9fea9fe",  # the same
    "127.255.255.254",
    "[::ffff:169.254.169.254]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001::1]",
    "224.0.0.1",
    "[ff02::1]",
    "255.255.255.255",
    "240.0.0.1",
]


@pytest.fixture
async def guarded() -> AsyncIterator[Outlet]:
    """An outlet as it is by default."""
    opened = Outlet(Notifications())
    yield opened
    await opened.close()


@pytest.fixture
async def open_outlet() -> AsyncIterator[Outlet]:
    """An outlet of a configuration that allows private targets."""
    opened = Outlet(Notifications(allow_private_targets=True))
    yield opened
    await opened.close()


async def refusal(outlet: Outlet, url: str) -> str:
    with pytest.raises(NotDelivered) as error:
        await outlet.post(url, b"{}", {})
    return str(error.value)


@pytest.mark.parametrize("host", [*LOOPBACK, *ELSEWHERE])
async def test_a_private_target_is_refused_however_it_is_written(
    guarded: Outlet, receiver: Receiver, host: str
):
    assert await refusal(guarded, f"http://{host}:{receiver.port}/hook") == REFUSAL
    assert receiver.requests == []


@pytest.mark.parametrize("host", ODD)
async def test_a_host_that_is_half_a_number_is_refused(open_outlet: Outlet, receiver: Receiver, host: str):
    assert await refusal(open_outlet, f"http://{host}:{receiver.port}/hook") == "the URL cannot be used"
    assert receiver.requests == []


@pytest.mark.parametrize("host", LOOPBACK)
async def test_the_same_target_is_reached_where_the_configuration_allows_it(
    open_outlet: Outlet, receiver: Receiver, host: str
):
    await open_outlet.post(f"http://{host}:{receiver.port}/hook", b"{}", {})

    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["::1", "127.0.0.1"], ["64:ff9b::7f00:1"]],
)
async def test_a_name_that_resolves_to_private_addresses_is_refused(
    guarded: Outlet, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
):
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolves_to(addresses))

    assert await refusal(guarded, f"http://hook.example.com:{receiver.port}/") == REFUSAL
    assert receiver.requests == []


def resolves_to(addresses: list[str]) -> Callable[..., Any]:
    async def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    return getaddrinfo


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(open_outlet: Outlet, receiver: Receiver, status: int):
    receiver.status, receiver.headers = status, {"Location": f"http://127.0.0.1:{receiver.port}/secret"}

    text = await refusal(open_outlet, receiver.url)

    assert text == f"the receiver answered {status}: redirects are not followed"
    assert [request.path for request in receiver.requests] == ["/hook"]


async def test_no_proxy_of_the_environment_is_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, receiver.url)
    outlet = Outlet(Notifications())

    text = await refusal(outlet, "http://127.0.0.1:1/")
    await outlet.close()

    assert text == REFUSAL
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("status", "malformed"),
    [(400, True), (413, True), (422, True), (401, False), (404, False), (429, False), (500, False)],
)
async def test_any_other_status_is_told_without_the_receivers_words(
    open_outlet: Outlet, receiver: Receiver, status: int, malformed: bool
):
    receiver.status = status

    with pytest.raises(NotDelivered) as error:
        await open_outlet.post(receiver.url, b"{}", {})

    assert str(error.value) == f"the receiver answered {status}"
    assert error.value.malformed is malformed


async def test_a_message_of_megabytes_is_sent_whole(open_outlet: Outlet, receiver: Receiver):
    body = b"x" * (3 * 1024 * 1024)

    await open_outlet.post(receiver.url, body, {})

    assert receiver.requests[0].body == body


async def serve(answer: Callable[[asyncio.StreamWriter], Any]) -> tuple[asyncio.Server, str]:
    """Start a server that reads a request's head and then does *answer*."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def many_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-One-More: of them\r\n" * 4096)
        await writer.drain()


async def no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example.com ESMTP\r\n")
    await writer.drain()


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def test_the_body_of_an_answer_is_not_read(open_outlet: Outlet):
    server, url = await serve(endless_body)

    async with asyncio.timeout(30):
        await open_outlet.post(url, b"{}", {})
    server.close()


@pytest.mark.parametrize("answer", [endless_head, many_headers, no_http])
async def test_an_answer_that_is_no_bounded_http_is_refused(open_outlet: Outlet, answer: Any):
    server, url = await serve(answer)

    async with asyncio.timeout(30):
        text = await refusal(open_outlet, url)
    server.close()

    assert text == "the connection broke, or the answer is no HTTP"


async def test_a_receiver_that_keeps_silent_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outlet_module, "EXCHANGE_SECONDS", 0.2)
    outlet = Outlet(Notifications(allow_private_targets=True))
    server, url = await serve(silence)

    async with asyncio.timeout(30):
        text = await refusal(outlet, url)
    server.close()
    await outlet.close()

    assert text == "no answer within 0 s"


async def test_a_name_that_nobody_has_is_told_so(open_outlet: Outlet, monkeypatch: pytest.MonkeyPatch):
    async def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)

    assert await refusal(open_outlet, "http://nobody.example.com/") == "the host name cannot be resolved"


async def mail_refusal(notifications: Notifications) -> str:
    outlet = Outlet(notifications)
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.com", "b@example.com", "c"
    mail.set_content("d")
    try:
        with pytest.raises(NotDelivered) as error:
            await outlet.mail(mail, ["b@example.com"])
    finally:
        await outlet.close()
    return str(error.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "::1"])
async def test_a_mail_server_at_a_private_address_is_refused_too(host: str):
    smtp = Smtp(host=host, port=25, sender="a@example.com", starttls=False)

    assert await mail_refusal(Notifications(smtp=smtp)) == f"mail server: {REFUSAL}"


async def test_a_mail_server_that_cannot_encrypt_is_told_nothing(mailbox: Any):
    smtp = Smtp(host="127.0.0.1", port=mailbox.port, sender="a@example.com", allow_private=True)
    before = len(mailbox.mails)

    assert await mail_refusal(Notifications(smtp=smtp)) == "mail server: no connection to the mail server"
    assert len(mailbox.mails) == before


async def test_without_a_mail_server_nothing_is_mailed():
    assert await mail_refusal(Notifications()) == "the configuration names no mail server"
