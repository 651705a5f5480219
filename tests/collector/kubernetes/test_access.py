"""Kubeconfig files, plugins, service accounts: what opens an API server, and when it is asked for again."""

import asyncio
import base64
import json
import os
import ssl
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from monitor.collector.failure import AgentStopped, EngineAway
from monitor.collector.kubernetes import access
from monitor.collector.kubernetes import kubeconfig as files
from monitor.collector.kubernetes.api import Api
from monitor.collector.kubernetes.kubeconfig import find_access
from monitor.collector.kubernetes.objects import ApiGroup
from tests.collector.fakes import served
from tests.collector.kubernetes.certificates import make_certificates
from tests.collector.kubernetes.fake_api import TOKEN

GROUP = "apis/metrics.k8s.io"


def kubeconfig(path, user, cluster=None, **changes):
    """Write a kubeconfig with one context, named after its file."""
    name = path.stem
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": "http://127.0.0.1:1"} | (cluster or {})}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "x"}}],
    }
    path.write_text(yaml.safe_dump(content | changes))
    return str(path)


async def opens(found):
    async with Api(found, "test") as api:
        await api.get(GROUP, ApiGroup)
    return True


async def header(found):
    return (await found.credentials()).headers.get("Authorization")


async def test_a_token_of_the_kubeconfig_opens_the_api_server(kube, tmp_path):
    path = kubeconfig(tmp_path / "k.yaml", {"token": TOKEN}, {"server": kube.url})

    assert await opens(find_access(path, None))


async def test_a_token_file_is_relative_to_its_kubeconfig_and_read_again(kube, tmp_path, monkeypatch):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    found = find_access(kubeconfig(tmp_path / "k.yaml", {"tokenFile": "token"}, {"server": kube.url}), None)
    assert await opens(found)

    kube.token = "rotated"
    (tmp_path / "token").write_text("rotated")
    assert await header(found) == f"Bearer {TOKEN}"  # not read for every request
    monkeypatch.setattr(access, "RELOAD_SECONDS", 0.0)

    assert await opens(found)


async def test_a_refused_token_is_read_again(kube, tmp_path, monkeypatch):
    monkeypatch.setattr(access, "REFUSED_SECONDS", 0.0)
    (tmp_path / "token").write_text(TOKEN)
    found = find_access(kubeconfig(tmp_path / "k.yaml", {"tokenFile": "token"}, {"server": kube.url}), None)
    assert await opens(found)
    kube.token = "rotated"
    (tmp_path / "token").write_text("rotated")

    with pytest.raises(EngineAway, match="401"):
        await opens(found)

    assert await opens(found)


async def test_a_plugin_is_not_asked_for_every_refusal(kube, plugin, monkeypatch):
    monkeypatch.setattr(access, "REFUSED_SECONDS", 3600.0)
    plugin.says({"token": "wrong"})
    found = plugin.access(kube.url)

    for _ in range(5):
        with pytest.raises(EngineAway, match="401"):
            await opens(found)

    assert len(plugin.seen()) == 1


async def test_a_plugin_is_asked_once_by_all_who_wait(plugin):
    plugin.says({"token": "t"})
    found = plugin.access()

    assert set(await asyncio.gather(*(header(found) for _ in range(10)))) == {"Bearer t"}
    assert len(plugin.seen()) == 1


async def test_several_files_are_one_and_the_first_of_a_name_counts(tmp_path):
    first = kubeconfig(tmp_path / "a.yaml", {"token": "of a"})
    second = kubeconfig(tmp_path / "b.yaml", {"token": "of b"})
    both = os.pathsep.join((str(tmp_path / "none.yaml"), first, second))

    assert await header(find_access(both, None)) == "Bearer of a"
    assert await header(find_access(both, "b")) == "Bearer of b"


PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({"info": info, "color": os.environ.get("COLOR")}) + "\\n")
print(open(sys.argv[2]).read())
"""


@pytest.fixture
def plugin(tmp_path):
    """A credential plugin that prints what `says` is given, and notes its calls in `calls`."""
    (tmp_path / "plugin.py").write_text(PLUGIN)

    class Plugin:
        calls = tmp_path / "calls"
        answer = tmp_path / "answer"

        def says(self, status, version="v1"):
            told = {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential"}
            self.answer.write_text(json.dumps(told | {"status": status}))

        def seen(self):
            return [json.loads(line) for line in self.calls.read_text().splitlines()]

        def access(self, server="http://127.0.0.1:1", **changes):
            spec = {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": [str(tmp_path / "plugin.py"), str(self.calls), str(self.answer)],
                "env": [{"name": "COLOR", "value": "green"}],
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            }
            return find_access(
                kubeconfig(tmp_path / "k.yaml", {"exec": spec | changes}, {"server": server}), None
            )

    return Plugin()


async def test_a_plugins_token_opens_the_api_server_and_is_kept(kube, plugin):
    plugin.says({"token": TOKEN})
    found = plugin.access(kube.url)

    assert await opens(found)
    assert await opens(found)

    [call] = plugin.seen()
    assert call["color"] == "green"
    assert call["info"]["spec"] == {"interactive": False, "cluster": {"server": kube.url, "config": None}}


async def test_a_plugin_is_asked_again_when_its_token_is_over(plugin):
    plugin.says({"token": "short", "expirationTimestamp": "2026-01-01T00:00:00Z"})
    found = plugin.access()
    await header(found)
    later = datetime.now(UTC) + timedelta(days=1)
    plugin.says({"token": "long", "expirationTimestamp": later.strftime("%Y-%m-%dT%H:%M:%SZ")})

    assert await header(found) == "Bearer long"
    await header(found)
    assert len(plugin.seen()) == 2


@pytest.mark.parametrize(
    ("status", "version", "text"),
    [
        ({}, "v1", "neither a token nor a certificate"),
        (None, "v1", "neither a token nor a certificate"),
        ({"token": "t"}, "v1beta1", "speaks client.authentication.k8s.io/v1beta1"),
    ],
)
async def test_a_plugin_that_gives_nothing_is_told(plugin, status, version, text):
    plugin.says(status, version)

    with pytest.raises(EngineAway, match=text):
        await plugin.access().credentials()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"command": "no-such-plugin", "installHint": "get it from the cloud"}, "get it from the cloud"),
        ({"args": ["-c", "import sys; sys.exit('please log in')"]}, "ended with 1: please log in"),
        ({"args": ["-c", "print('hello')"]}, "printed no ExecCredential"),
    ],
)
async def test_a_plugin_that_fails_is_told_with_its_words(plugin, changes, text):
    with pytest.raises(EngineAway, match=text):
        await plugin.access(**changes).credentials()


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("changes", "context", "text"),
    [
        ({"current-context": ""}, None, "no current-context"),
        ({}, "elsewhere", "there is no context 'elsewhere'"),
        ({"clusters": []}, None, "there is no cluster 'k'"),
        ({"users": None}, None, "there is no user 'k'"),
        ({"clusters": [{"name": "k", "cluster": {"server": "here"}}]}, None, "server is no address"),
        ({"clusters": [{"name": "k", "cluster": {}}]}, None, "missing required field `server`"),
        ({"users": [{"name": "k", "user": {"auth-provider": {"name": "gcp"}}}]}, None, "use exec"),
        ({"contexts": 7}, None, "contexts"),
    ],
)
async def test_a_kubeconfig_that_says_too_little_is_told(tmp_path, changes, context, text):
    path = kubeconfig(tmp_path / "k.yaml", {"token": "t"}, **changes)

    with pytest.raises(AgentStopped, match=text) as stopped:
        find_access(path, context)

    assert stopped.value.exit_code == 2


async def test_a_file_that_is_no_yaml_is_told(tmp_path):
    (tmp_path / "k.yaml").write_text("{")

    with pytest.raises(AgentStopped, match="cannot be read"):
        find_access(str(tmp_path / "k.yaml"), None)


@pytest.mark.parametrize("data", ["%%%", encoded("no certificate")])
async def test_a_certificate_that_is_none_is_told(tmp_path, data):
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": data}
    found = find_access(kubeconfig(tmp_path / "k.yaml", {"token": "t"}, cluster), None)

    with pytest.raises((EngineAway, AgentStopped), match="certificate"):
        await found.credentials()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"), "DNS:kubernetes.test")


@pytest.fixture
async def guarded(kube, certificates):
    """The address of an API server that asks for a certificate of its authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
    context.load_cert_chain(certificates.server, certificates.server_key)
    context.verify_mode = ssl.CERT_REQUIRED
    kube.token = None
    async with served(kube.app(), tls=context) as url:
        yield url


@pytest.mark.parametrize("inline", [True, False])
async def test_a_client_certificate_opens_the_api_server(guarded, certificates, tmp_path, inline):
    def given(name, path):
        return {f"{name}-data": encoded(path.read_text())} if inline else {name: str(path)}

    cluster = {"server": guarded, "tls-server-name": "kubernetes.test"} | given(
        "certificate-authority", certificates.ca
    )
    user = given("client-certificate", certificates.client) | given("client-key", certificates.client_key)

    assert await opens(find_access(kubeconfig(tmp_path / "k.yaml", user, cluster), None))


async def test_a_plugins_certificate_opens_the_api_server(guarded, certificates, plugin, tmp_path):
    plugin.says(
        {
            "clientCertificateData": certificates.client.read_text(),
            "clientKeyData": certificates.client_key.read_text(),
        }
    )
    cluster = {"server": guarded, "insecure-skip-tls-verify": True}
    plugin.access()
    written = yaml.safe_load((tmp_path / "k.yaml").read_text())
    path = kubeconfig(tmp_path / "k.yaml", written["users"][0]["user"], cluster)

    assert await opens(find_access(path, None))


@pytest.mark.parametrize("trusted", [{}, {"tls-server-name": "elsewhere.test"}])
async def test_a_server_of_another_authority_or_name_is_not_talked_to(
    guarded, certificates, tmp_path, trusted
):
    ca = {"certificate-authority": str(certificates.ca)} if trusted else {}
    path = kubeconfig(tmp_path / "k.yaml", {"token": TOKEN}, {"server": guarded} | trusted | ca)

    with pytest.raises(EngineAway, match="certificate"):
        await opens(find_access(path, None))


@pytest.fixture
def service_account(tmp_path, monkeypatch):
    """The folder that a pod finds its service account in."""
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


async def test_a_pod_uses_its_service_account_and_reads_the_token_again(
    service_account, certificates, monkeypatch
):
    (service_account / "token").write_text("first")
    (service_account / "ca.crt").write_text(certificates.ca.read_text())
    found = find_access(None, None)

    assert str(found.server) == "https://[fd00::1]"
    assert not found.trust_env  # a proxy does not know the cluster's own addresses
    first = await found.credentials()
    assert first.headers == {"Authorization": "Bearer first"}
    monkeypatch.setattr(access, "RELOAD_SECONDS", 0.0)
    (service_account / "token").write_text("second")
    second = await found.credentials()

    assert second.headers == {"Authorization": "Bearer second"}
    assert second.tls is first.tls  # connections are kept


async def test_a_pod_without_a_service_account_is_told(service_account):
    with pytest.raises(AgentStopped, match="automountServiceAccountToken"):
        find_access(None, None)


async def test_a_named_kubeconfig_counts_in_a_pod_too(service_account, tmp_path):
    path = kubeconfig(tmp_path / "k.yaml", {"token": "of the file"})

    assert await header(find_access(path, None)) == "Bearer of the file"


async def test_outside_of_a_cluster_the_users_own_kubeconfig_counts(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(files, "DEFAULT_KUBECONFIG", tmp_path / "config")

    with pytest.raises(AgentStopped, match=r"config does not exist"):
        find_access(None, None)
