from __future__ import annotations

import asyncio

import argon2

from monitor.auth import passwords
from monitor.auth.passwords import hash_password, verify_password
from monitor.errors import TooManyRequests


async def test_a_password_is_verified_against_its_own_hash_alone():
    hashed = await hash_password("correct horse")

    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await verify_password("correct horse", hashed)
    assert not await verify_password("correct horse ", hashed)
    assert not await verify_password("", hashed)
    assert not await verify_password("correct horse", "no hash")


async def test_without_a_user_no_password_is_right_and_the_work_is_the_same():
    nobody, somebody = (
        argon2.extract_parameters(text) for text in (passwords._NOBODY, await hash_password("x"))
    )

    assert not await verify_password("anything", None)
    assert nobody == somebody


async def test_the_line_in_front_of_the_threads_is_bounded(monkeypatch):
    monkeypatch.setattr(passwords, "LINE_LENGTH", 3)

    results = await asyncio.gather(*(hash_password("x") for _ in range(5)), return_exceptions=True)

    assert [type(result) for result in results] == [str] * 3 + [TooManyRequests] * 2
    assert await hash_password("x")


async def test_whoever_leaves_the_line_makes_room(monkeypatch):
    monkeypatch.setattr(passwords, "LINE_LENGTH", 3)
    waiting = [asyncio.create_task(hash_password("x")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    left = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(result) for result in left] == [asyncio.CancelledError] * 3
    assert await hash_password("x")


async def test_the_event_loop_turns_while_passwords_are_hashed():
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.create_task(count_turns())
    await asyncio.gather(*(hash_password("x") for _ in range(8)))
    counting.cancel()

    assert turns >= 8
