"""The workers of real processes: they deliver by themselves, share the work, and may be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from tests.conftest import start_service

ARRIVAL_SECONDS = 60.0  # a process needs some of them to start


async def test_background_processes_deliver_by_themselves_and_tell_nothing_twice(
    outbox, webhook, receiver, tmp_path
):
    values = yaml.safe_load(outbox.app.config_path.read_text())
    services = [await start_service(tmp_path / f"{name}.yaml", values, "background") for name in "ab"]
    for number in range(5):
        await webhook(name=f"channel {number}")

    await outbox.note(*(outbox.change(f"alert_{number}") for number in range(10)))
    async with asyncio.timeout(ARRIVAL_SECONDS):
        while len(receiver.requests) < 5:
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.5)  # another round of every worker
    for service in services:
        await service.stop()

    assert [len(states) for states in receiver.told] == [10] * 5


async def test_a_notification_survives_the_death_of_the_process_that_sends_it(
    outbox, webhook, receiver, tmp_path
):
    await webhook()
    values = yaml.safe_load(outbox.app.config_path.read_text())
    values["server"]["internal_listen"] = ""
    config = tmp_path / "monitor.yaml"
    config.write_text(yaml.safe_dump(values))
    receiver.gate.clear()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "monitor", "serve", "--role", "background", "--config", str(config)),
        cwd=Path(__file__).parents[2],
        stderr=asyncio.subprocess.DEVNULL,
    )
    await outbox.note(outbox.change())
    async with asyncio.timeout(ARRIVAL_SECONDS):
        await receiver.arrived.wait()

    process.kill()
    await process.wait()
    receiver.gate.set()
    too_early = await outbox.deliver_next()
    await outbox.pass_seconds(60)
    told = await outbox.deliver_next()

    assert (too_early, told) == (False, True)
    assert receiver.told == [[("alert_1", "firing")]] * 2
