from __future__ import annotations

import asyncio
import secrets

import pytest

from monitor.auth import provision
from monitor.auth.checks import checked_email, checked_name, retention_seconds, retention_text
from monitor.auth.passwords import verify_password
from monitor.errors import BadRequest, Conflict, NotFound
from tests.auth.probes import PASSWORD


@pytest.mark.parametrize(
    ("text", "stored"),
    [("Acme", "Acme"), ("  Acme GmbH ", "Acme GmbH"), ("名前", "名前"), ("x" * 200, "x" * 200)],
)
def test_a_name_is_trimmed(text, stored):
    assert checked_name(text) == stored


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "a\0b", "a\nb", "a\x1bb", "\udcff"])
def test_a_name_that_is_no_line_of_text_is_refused(text):
    with pytest.raises(BadRequest) as refused:
        checked_name(text)

    assert refused.value.field == "name"


@pytest.mark.parametrize(
    ("text", "stored"),
    [("Ann@Example.ORG", "ann@example.org"), (" a@b ", "a@b"), ("é@ü.example", "é@ü.example")],
)
def test_an_email_is_trimmed_and_lower_case(text, stored):
    assert checked_email(text) == stored


@pytest.mark.parametrize(
    "text", ["", "ann", "@b", "a@", "a@b@c", "a b@c", "a@b\nc", "a\0@b", "\udcff@b", "a" * 319 + "@b"]
)
def test_what_has_no_form_of_an_email_is_refused(text):
    with pytest.raises(BadRequest) as refused:
        checked_email(text)

    assert refused.value.field == "email"


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("1h30m", 5400), ("1s", 1), ("1500ms", 1)])
def test_a_retention_is_whole_seconds(text, seconds):
    assert retention_seconds(text, field="metricsRetention") == seconds


@pytest.mark.parametrize("text", ["1s", "1h30m", "7d", "30d", "365d", "1d12h"])
def test_a_retention_is_shown_in_days(text):
    assert retention_text(retention_seconds(text, field="logsRetention")) == text


@pytest.mark.parametrize("text", ["", "30", "0", "0s", "999ms", "-1d", "1 d", "101y", "soon"])
def test_what_is_no_retention_is_refused_by_its_field(text):
    with pytest.raises(BadRequest, match="metricsRetention: ") as refused:
        retention_seconds(text, field="metricsRetention")

    assert refused.value.field == "metricsRetention"


def fresh_email() -> str:
    return f"{secrets.token_hex(8)}@example.org"


async def test_a_generated_password_is_to_be_changed_and_a_given_one_is_not(pool, org):
    for given in (None, PASSWORD):
        async with pool.acquire() as conn:
            user_id, generated = await provision.create_user(conn, org.id, fresh_email(), "admin", given)
        row = await pool.fetchrow("SELECT * FROM users WHERE id = $1", user_id)

        assert (generated is None) == (given is not None)
        assert row["must_change_password"] == (given is None)
        assert await verify_password(given or generated, row["password_hash"])


async def test_an_email_is_used_once_in_all_organizations(pool, org, make_organization):
    email, foreign = fresh_email(), await make_organization()
    async with pool.acquire() as conn:
        await provision.create_user(conn, org.id, email, "member", None)
        with pytest.raises(Conflict) as refused:
            await provision.create_user(conn, foreign.id, email.upper(), "member", None)

    assert refused.value.field == "email"


async def test_of_two_users_with_one_email_at_once_one_is_made(pool, org):
    email = fresh_email()

    async def create():
        async with pool.acquire() as conn, conn.transaction():
            await provision.create_user(conn, org.id, email, "member", PASSWORD)

    results = await asyncio.gather(create(), create(), return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["Conflict", "NoneType"]


@pytest.mark.parametrize(
    ("email", "role", "password", "field"),
    [
        ("nobody", "member", None, "email"),
        ("a@b.example", "owner", None, "role"),
        ("a@b.example", "member", "", "password"),
        ("a@b.example", "member", "x" * 1025, "password"),
    ],
)
async def test_a_user_with_a_bad_field_is_refused_by_its_name(pool, org, email, role, password, field):
    async with pool.acquire() as conn:
        with pytest.raises(BadRequest) as refused:
            await provision.create_user(conn, org.id, email, role, password)

    assert refused.value.field == field


@pytest.mark.parametrize("org_id", ["org_unknown", "", "a\0b", "\udcff", "x" * 65])
async def test_nothing_is_made_in_an_unknown_organization(pool, org_id):
    async with pool.acquire() as conn:
        with pytest.raises(NotFound):
            await provision.create_user(conn, org_id, fresh_email(), "member", PASSWORD)
        with pytest.raises(NotFound):
            await provision.create_api_key(conn, org_id, "ci")
        with pytest.raises(NotFound):
            await provision.set_org(conn, org_id, plan="pro")
        with pytest.raises(NotFound):
            await provision.revoke_api_key(conn, org_id)


async def test_what_is_not_given_stays_as_it_is(pool, org):
    async with pool.acquire() as conn, conn.transaction():
        await provision.set_org(conn, org.id, metrics_retention_seconds=60, logs_retention_seconds=120)
        await provision.set_org(conn, org.id, plan="enterprise", suspended=True)
        changed = await provision.set_org(conn, org.id, metrics_retention_seconds=None)
        listed = [each for each in await provision.list_orgs(conn) if each.id == org.id]

    assert listed == [changed]
    assert (changed.plan, changed.suspended) == ("enterprise", True)
    assert (changed.metrics_retention_seconds, changed.logs_retention_seconds) == (None, 120)


async def test_of_a_key_only_its_hash_and_a_prefix_are_stored(pool, org):
    rows = await pool.fetch("SELECT * FROM api_keys WHERE org_id = $1", org.id)

    assert len(rows) == 1
    assert rows[0]["prefix"] == org.api_key[:10]
    assert org.api_key not in str(dict(rows[0]))
