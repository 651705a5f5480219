"""How each documented command is held to work: run, tried dry, or run by another test.

Exactly one rule fits a command, by its whole text on one line and without comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.operations.pages import Command


@dataclass(frozen=True)
class Run:
    """It is executed in a temporary folder against a running service, and ends with 0.

    Attributes:
        prints: What its output must hold.
        before: A command that comes first; then the output may take its time: a new series is hidden at first.
        is_agent: It runs until it is told to end, which it is after its first push.
        needs: A program without which it is skipped, with the reason.
    """

    pattern: str
    prints: str = ""
    before: str = ""
    is_agent: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Dry:
    """Make or pytest says what it would do, which it cannot where a target or file is missing."""

    pattern: str
    option: str
    after: str


@dataclass(frozen=True)
class Elsewhere:
    """A file runs it, or is what it starts, and still has this text."""

    pattern: str
    file: str
    text: str


ONCE = "monitor agent --once --url $URL --api-key $KEY"
COMPOSE = "tests/compose/test_compose.py"  # opt-in: make test-compose
KUBERNETES = "tests/kubernetes/conftest.py"  # opt-in: make test-kubernetes
RESTORE = "tests/operations/test_restore.py"
INSTALL = "tests/collector/test_install.py"

Rule = Run | Dry | Elsewhere

RULES: list[Rule] = [
    Run(r"(MONITOR_API_KEY=\S+ )?\S*monitor agent( --(url|api-key|state-dir) \S+)+", is_agent=True),
    Run(r"monitor agent --once --dry-run", prints='"name": "web"'),
    Run(r"monitor agent health", before=ONCE, prints="healthy: last push accepted"),
    Run(r"\S*monitor agent install --type (systemd|docker|kubernetes) .*> \S+"),
    Run(r"curl -H 'X-API-Key: mk_\.\.\.' \S+/api/v1/containers", before=ONCE, prints='"name":"web"', needs="curl"),
    Run(r"curl -H \"Authorization: Bearer \$KEY\" \S+/prometheus/api/v1/labels", prints='"status":"success"', needs="curl"),
    Run(r"curl .* \$URL/api/v1/settings/channels -d .*", prints='"name":"on call"', needs="curl"),
    Run(r"curl .* \$URL/api/v1/scaling/simulate -d .*", prints='"timeline":', needs="curl"),
    Run(r"curl http://127\.0\.0\.1:8080/readyz", prints='"status":"ready"', needs="curl"),
    Run(r"promtool query instant .*", before=ONCE, prints="agent_up", needs="promtool"),
    Run(r"\S*monitor migrate"),
    Run(r"\S*monitor decisions verify --org ORG", prints='"ok":true'),
    Run(r"cp (-r )?deploy/grafana/\S+ \S+|mkdir -p /var/lib/grafana/dashboards/monitor"),
    Run(r"sh deploy/compose/secrets\.sh", prints="made deploy/compose/secrets/jwt_secrets"),
    Dry(r"make( [a-z-]+)?( [A-Z_]+=\S+)*", "make", "-n"),
    Dry(r"\S*pytest .*", "pytest", "--collect-only -p no:cacheprovider"),
    Elsewhere(r"sudo apt-get install -y .*", "scripts/setup.sh", "-q install -y"),
    Elsewhere(r"docker compose up -d --build", COMPOSE, 'compose("up", "--detach")'),
    Elsewhere(r"docker compose exec monitor monitor org create .*", COMPOSE, '"monitor", "org", "create"'),
    Elsewhere(r"docker compose exec monitor monitor user create .*", COMPOSE, '"user", "create", "--org"'),
    Elsewhere(r"docker compose exec monitor monitor apikey create .*", COMPOSE, '"apikey", "create", "--org"'),
    Elsewhere(r"printf %s mk_\.\.\. > deploy/compose/.*", COMPOSE, "deploy/compose/secrets/agent_api_key"),
    Elsewhere(r"DOCKER_GID=\S+ -c %g \S+ docker compose --profile agent up -d", COMPOSE, '"agent", "up", "--detach"'),
    Elsewhere(r"docker build -t monitor \.", "tests/compose/stack.py", 'self._build("monitor", ROOT)'),
    Elsewhere(r"sudo python3 -m venv /opt/monitor", "Dockerfile", "python3 -m venv /opt/monitor"),
    Elsewhere(r"sudo /opt/monitor/bin/pip install \.", "Dockerfile", "/opt/monitor/bin/pip install"),
    Elsewhere(r"kubectl .* annotate .*", "tests/kubernetes/test_cluster.py", '"monitor.scaling=force"'),
    Elsewhere(r"kubectl apply -f .*", KUBERNETES, 'kubectl("apply", "-f", str(MANIFESTS / "agent.yaml"))'),
    Elsewhere(r"sudo sh \S+\.sh", INSTALL, 'subprocess.run(["sh", "-c", script], check=True)'),
    Elsewhere(r"DOCKER_GID=\S+ -c %g \S+ docker compose -f \S+\.yml up -d", INSTALL, "test_the_compose_file_is_filled_in"),
    Elsewhere(r"pg_dump .*", RESTORE, "run, pg_dump, *DUMP"),
    Elsewhere(r"pg_restore .*", RESTORE, "run, pg_restore, *RESTORE"),
    Elsewhere(r"createdb .*", RESTORE, "fresh_database(servers)"),
    Elsewhere(r"curl -s http://127\.0\.0\.1:8428/snapshot/create", RESTORE, "/snapshot/create"),
    Elsewhere(r"vmbackup .*", RESTORE, '"vmbackup", f"-storageDataPath='),
    Elsewhere(r"vmrestore .*", RESTORE, '"vmrestore", f"-src='),
    Elsewhere(r"vmagent .*", "tests/prometheus/test_write_senders.py", "-remoteWrite.url={app.base_url}{WRITE}"),
    Elsewhere(r"cd dashboard && npm run dev", "dashboard/package.json", '"dev": "vite"'),
]  # fmt: skip


# What runs the recipe of a documented target, and a text of it; None: nothing but people, as it takes
# minutes, downloads what no test needs, or makes what is looked at.
RECIPES: dict[str, tuple[str, str] | None] = {
    "setup": ("Makefile", "lint: $(ENVIRONMENT)"),  # by `make test`, on a bare machine too
    "run": ("tests/dev/test_stack.py", '"-m", "monitor", "dev", "--data-dir"'),
    "test": (".ci/run", "exec make test"),
    "check": ("Makefile", "test: need-tests check"),
    "lint": ("Makefile", "check: lint types"),
    "types": ("Makefile", "check: lint types"),
    "test-restore": (RESTORE, "`make test-restore`"),
    "test-compose": (COMPOSE, "`make test-compose`"),  # opt-in
    "test-kubernetes": ("tests/kubernetes/cluster.py", "KUBE_APISERVER"),  # opt-in: where the programs are
    "chaos": ("tests/chaos/test_chaos.py", "The short form of ``make chaos``"),
    "bench": None,
    "bench-web": None,
    "screenshots": None,
    "fuzz": None,
}


def fitting(command: Command) -> list[Rule]:
    """Return the rules that fit."""
    return [rule for rule in RULES if re.fullmatch(rule.pattern, command.bare)]
