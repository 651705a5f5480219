"""What the service has not taken yet is held on disk, within bounds."""

import pytest

from monitor.collector.failure import AgentStopped
from monitor.collector.spool import Spool


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "spool"


def drained(spool):
    bodies = []
    while (held := spool.oldest()) is not None:
        bodies.append(held[1])
        spool.remove(held[0])
    return bodies


def test_the_oldest_comes_first_after_a_restart_too(directory):
    spool = Spool(directory)
    for seq in (9, 10, 100):
        spool.add(seq, b"%d" % seq)

    again = Spool(directory)

    assert (len(again), again.newest_seq) == (3, 100)
    assert drained(again) == [b"9", b"10", b"100"]
    assert len(Spool(directory)) == 0


def test_above_the_count_the_oldest_are_dropped_and_counted_for_ever(directory):
    spool = Spool(directory, max_count=3)
    for seq in range(5):
        spool.add(seq, b"%d" % seq)

    assert spool.dropped == 2
    assert len(list(directory.glob("*.json.gz"))) == 3
    again = Spool(directory, max_count=3)
    again.add(5, b"5")
    assert again.dropped == 3
    assert drained(again) == [b"3", b"4", b"5"]


def test_above_the_bytes_the_oldest_are_dropped_but_never_the_newest(directory):
    spool = Spool(directory, max_bytes=10)
    for seq, size in enumerate((4, 4, 4, 11)):
        spool.add(seq, b"x" * size)
        assert len(spool) == (1, 2, 2, 1)[seq]

    assert spool.dropped == 3
    assert drained(spool) == [b"x" * 11]


def test_removing_what_the_bounds_dropped_changes_nothing(directory):
    spool = Spool(directory, max_count=1)
    spool.add(1, b"one")
    spool.add(2, b"two")

    spool.remove(1)

    assert drained(spool) == [b"two"]


def test_what_the_disk_refuses_is_held_in_memory_in_order(directory, monkeypatch):
    spool = Spool(directory)
    spool.add(1, b"one")
    spool._directory = directory / "gone"  # every write fails, as on a full disk
    spool.add(2, b"two")
    spool._directory = directory
    spool.add(3, b"three")

    assert drained(spool) == [b"one", b"two", b"three"]


def test_a_file_that_was_taken_away_is_passed_over(directory):
    spool = Spool(directory)
    spool.add(1, b"one")
    spool.add(2, b"two")
    next(directory.glob("*1.json.gz")).unlink()

    assert drained(spool) == [b"two"]


def test_a_directory_that_cannot_be_used_is_named(directory):
    directory.write_text("a file")

    with pytest.raises(AgentStopped, match="spool cannot be used"):
        Spool(directory)


def test_what_a_kill_left_unfinished_is_removed(directory):
    directory.mkdir()
    (directory / "00000000000000000007.json.tmp").write_bytes(b"half")
    (directory / "00000000000000000008.json.gz").write_bytes(b"")

    assert len(Spool(directory)) == 0
    assert list(directory.iterdir()) == []
