"""The state directory: one agent's, with its identity."""

import json
import stat

import pytest

from monitor.collector.failure import AgentStopped
from monitor.collector.state import Identity, StateDir

IDENTITY = Identity("agent_1", "at_secret", "https://monitor.example.com")


def test_an_identity_is_found_again_and_is_for_its_owner_alone(tmp_path):
    with StateDir(tmp_path / "a" / "b") as state:
        state.save_identity(Identity("agent_0", "at_old", IDENTITY.url))
        state.save_identity(IDENTITY)

    path = tmp_path / "a" / "b" / "agent.json"
    assert json.loads(path.read_text()) == {
        "agentId": "agent_1",
        "token": "at_secret",
        "url": "https://monitor.example.com",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with StateDir(tmp_path / "a" / "b") as state:
        assert state.load_identity(IDENTITY.url) == IDENTITY


def test_what_a_kill_left_of_a_write_is_no_identity_and_no_obstacle(tmp_path):
    (tmp_path / "agent.json.tmp").write_text('{"agentId"')
    with StateDir(tmp_path) as state:
        assert state.load_identity(IDENTITY.url) is None
        state.save_identity(IDENTITY)
        assert state.load_identity(IDENTITY.url) == IDENTITY


def test_two_agents_do_not_share_a_directory(tmp_path):
    with StateDir(tmp_path), pytest.raises(AgentStopped, match="in use by another agent"), StateDir(tmp_path):
        pass
    with StateDir(tmp_path):
        pass  # free again


@pytest.mark.parametrize("content", ["", "{}", "[", '{"agentId": 1, "token": "t", "url": "u"}'])
def test_a_damaged_identity_is_told_with_its_path(tmp_path, content):
    (tmp_path / "agent.json").write_text(content)

    with StateDir(tmp_path) as state, pytest.raises(AgentStopped, match=r"agent\.json cannot be read"):
        state.load_identity(IDENTITY.url)


def test_a_token_is_not_shown_to_another_service(tmp_path):
    with StateDir(tmp_path) as state:
        state.save_identity(IDENTITY)
        with pytest.raises(AgentStopped, match="belongs to the service at") as stopped:
            state.load_identity("https://elsewhere.example.com")

    assert stopped.value.exit_code == 2


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(AgentStopped, match="--state-dir"), StateDir(tmp_path / "file" / "state"):
        pass
