from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from monitor.auth.origin import rightmost_untrusted

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("198.51.100.7", "203.0.113.9", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "203.0.113.9:4711", "203.0.113.9"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("fd00::1", "203.0.113.9", "203.0.113.9"),
    ],
)
def test_the_client_is_the_rightmost_address_that_no_trusted_proxy_has(peer, forwarded, expected):
    client = rightmost_untrusted(ip_address(peer), forwarded, TRUSTED)

    assert client == ip_address(expected)


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://[bad"},
    {"Origin": "{scheme_other}"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "{own}", "Sec-Fetch-Site": "cross-site"},
]
OWN = [
    {},
    {"Origin": "{own}"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {
        "Origin": "https://monitor.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "monitor.example",
    },
    {
        "Origin": "https://monitor.example:443",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "MONITOR.example",
    },
]


def filled(headers, own):
    other = own.replace("http:", "https:")
    return {
        name: text.replace("{own}", own).replace("{scheme_other}", other) for name, text in headers.items()
    }


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_foreign_pages_request_with_the_cookie_is_forbidden(service, make_user, headers):
    cookie = {"Cookie": f"auth_token={(await make_user()).token}"}
    own = str((await service.get("/probe/public")).url.origin())

    changed = await service.post("/probe/unmarked", headers=cookie | filled(headers, own))
    read = await service.get("/probe/unmarked", headers=cookie | filled(headers, own))

    assert changed.status == 403
    assert await changed.json() == {"error": "forbidden"}
    assert read.status == 200


@pytest.mark.parametrize("headers", OWN, ids=str)
async def test_the_own_pages_request_with_the_cookie_passes(service, make_user, headers):
    cookie = {"Cookie": f"auth_token={(await make_user()).token}"}
    own = str((await service.get("/probe/public")).url.origin())

    assert (await service.post("/probe/unmarked", headers=cookie | filled(headers, own))).status == 200


async def test_other_credentials_than_the_cookie_need_no_origin(service, make_user, org):
    token = (await make_user()).token
    foreign = {"Origin": "https://evil.example"}

    for credential in ({"Authorization": f"Bearer {token}"}, {"X-API-Key": org.api_key}):
        assert (await service.post("/probe/unmarked", headers=credential | foreign)).status == 200


async def test_forwarded_headers_of_an_untrusted_peer_do_not_count(serve, pool, make_user):
    cookie = {"Cookie": f"auth_token={(await make_user()).token}"}
    forged = {
        "Origin": "https://evil.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
    }
    async with serve(pool) as untrusting:
        refused = await untrusting.post("/probe/unmarked", headers=cookie | forged)

    assert refused.status == 403


async def test_the_public_url_is_an_own_origin(serve, pool, make_user):
    cookie = {"Cookie": f"auth_token={(await make_user()).token}"}
    async with serve(pool, public_url="https://monitor.example/") as public:
        passed = await public.post("/probe/unmarked", headers=cookie | {"Origin": "https://monitor.example"})

    assert passed.status == 200
