import multiprocessing
import os
import socket
import stat

import pytest

from monitor.dev.files import (
    LOOPBACK,
    DevError,
    FolderInUse,
    PortTaken,
    check_port,
    kept_port,
    kept_secret,
    locked,
    write_private,
)


@pytest.fixture
def listener():
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_private_file_is_its_owners_alone_even_where_it_was_open_before(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text("old")
    path.chmod(0o644)

    write_private(path, "new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_is_made_once_and_kept(tmp_path):
    secret = kept_secret(tmp_path / "one")

    assert kept_secret(tmp_path / "one") == secret
    assert kept_secret(tmp_path / "two") != secret
    assert len(secret) >= 32
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600


def test_a_port_is_kept_while_it_is_free(tmp_path):
    port = kept_port(tmp_path / "port")

    assert kept_port(tmp_path / "port") == port


def test_a_port_that_was_taken_meanwhile_is_replaced(tmp_path, listener):
    (tmp_path / "port").write_text(str(listener))

    port = kept_port(tmp_path / "port")

    assert port != listener
    assert kept_port(tmp_path / "port") == port


def test_a_port_meant_for_another_server_is_left_to_it(tmp_path):
    port = kept_port(tmp_path / "port")

    assert kept_port(tmp_path / "port", avoid=port) != port


@pytest.mark.parametrize("text", ["", "port", "0", "-1", "65536", "8080 8081"])
def test_a_spoiled_port_file_is_replaced(tmp_path, text):
    (tmp_path / "port").write_text(text)

    port = kept_port(tmp_path / "port")

    assert 0 < port < 65536
    assert (tmp_path / "port").read_text() == str(port)


def test_a_taken_port_is_named(listener):
    with pytest.raises(PortTaken, match=f"port {listener} on 127.0.0.1 is in use"):
        check_port(LOOPBACK, listener)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(DevError, match=r"cannot listen on 192\.0\.2\.1, port 8080"):
        check_port("192.0.2.1", 8080)


def _hold(folder, held, release):
    with locked(folder):
        held.set()
        release.wait(10)


def test_a_folder_is_held_by_one_program_and_freed_by_its_death(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, held, release))
    holder.start()
    try:
        assert held.wait(10)
        with pytest.raises(FolderInUse, match=f"in use by process {holder.pid}"), locked(tmp_path):
            pytest.fail("the lock was given twice")
    finally:
        holder.kill()
        holder.join()

    with locked(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
