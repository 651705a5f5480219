"""What ``monitor agent install`` prints can be put in place as it is."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from monitor.collector.command import agent
from monitor.collector.install import deploy_file

ARGUMENTS = ["--url", "https://monitor.example.com", "--api-key", "mk_$ecret'\"\\", "--name", "host 1"]


def printed(kind, *more):
    done = CliRunner().invoke(agent, ["install", "--type", kind, *ARGUMENTS, *more])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_systemd_script_writes_the_unit_and_a_file_that_others_cannot_read(tmp_path):
    script = printed("systemd").replace("/etc/", f"{tmp_path}/").replace("systemctl", "true")
    (tmp_path / "systemd" / "system").mkdir(parents=True)

    subprocess.run(["sh", "-c", script], check=True)

    unit = (tmp_path / "systemd/system/monitor-agent.service").read_text()
    assert unit == deploy_file("agent/monitor-agent.service").replace("/etc/", f"{tmp_path}/")
    variables = tmp_path / "monitor-agent.env"
    assert variables.stat().st_mode & 0o777 == 0o600
    assert dict(word.split("=", 1) for word in shlex.split(variables.read_text())) == {
        "MONITOR_URL": "https://monitor.example.com",
        "MONITOR_API_KEY": "mk_$ecret'\"\\",
        "MONITOR_AGENT_NAME": "host 1",
    }


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_takes_the_unit(tmp_path):
    unit = tmp_path / "monitor-agent.service"
    # The program need not be here, and systemd checks that it is.
    unit.write_text(
        deploy_file("agent/monitor-agent.service").replace("/opt/monitor/bin/monitor", "/bin/true")
    )

    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_compose_file_is_filled_in():
    service = yaml.safe_load(printed("docker"))["services"]["monitor-agent"]

    assert service["environment"] == {
        "MONITOR_URL": "https://monitor.example.com",
        "MONITOR_API_KEY": "mk_$$ecret'\"\\",  # for compose a dollar is two
        "MONITOR_AGENT_NAME": "host 1",
    }
    assert service["healthcheck"]["test"] == ["CMD", "monitor", "agent", "health"]


@pytest.mark.parametrize("scaling", [False, True])
def test_the_manifest_has_namespace_secret_and_rights(scaling):
    documents = list(yaml.safe_load_all(printed("kubernetes", *["--scaling"] * scaling)))

    kinds = [document["kind"] for document in documents]
    assert kinds[0] == "Namespace"
    [secret] = [document for document in documents if document["kind"] == "Secret"]
    assert secret["metadata"] == {"name": "monitor-agent", "namespace": "monitor"}
    assert set(secret["data"]) == {"MONITOR_URL", "MONITOR_API_KEY", "MONITOR_AGENT_NAME"}
    names = {document["metadata"]["name"] for document in documents if document["kind"] == "ClusterRole"}
    assert ("monitor-agent-scaling" in names) is scaling
    assert kinds.count("Deployment") == 1


def test_scaling_is_asked_for_in_clusters_alone():
    done = CliRunner().invoke(agent, ["install", "--type", "docker", *ARGUMENTS, "--scaling"])

    assert done.exit_code == 2
    assert "--scaling is for --type kubernetes" in done.output


def test_the_installed_files_are_those_of_the_folder():
    """The image and the wheel have no checkout: setup.cfg installs what is read."""
    config = (Path(__file__).parents[2] / "setup.cfg").read_text()

    for folder in ("agent", "kubernetes"):
        assert f"share/monitor/deploy/{folder} = deploy/{folder}/*" in config
    assert "share/monitor/migrations = migrations/*.sql" in config
