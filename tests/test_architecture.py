"""What keeps the code in shape, read off the code itself.

The order of imports is import-linter's part (``setup.cfg``); here stands what it
cannot see: where SQL is, whose rows a statement may touch, what a pure module loads.
Every exception has its reason beside it, and one that nothing needs is an error.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from monitor.db.migrate import MigrationError, read_files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "monitor"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "static" not in path.parts)
MODULE_LINES = 300

# What SQL looks like: our statements write their keywords in capitals.
SQL = re.compile(
    r"\b(SELECT\s+\S.*\bFROM|SELECT\s+\S+\s*$|INSERT\s+INTO|UPDATE\s+\S+.*\bSET|DELETE\s+FROM|TRUNCATE\s"
    r"|LOCK\s+TABLE|SET\s+LOCAL|(CREATE|ALTER|DROP)\s+(TABLE|ROLE|DATABASE|INDEX)|GRANT\s|REVOKE\s)",
    re.DOTALL,
)
TABLE = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|TRUNCATE)\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z_]+[a-z_0-9]*)\b(?!\()"
)
CTE = re.compile(r"\b([a-z_]+)(?:\s*\([^)]*\))?\s+AS\s*\(")
# A statement belongs to one organization if it compares org_id with a parameter, or writes it.
OF_ONE = re.compile(r"\borg_id = \$\d|INSERT INTO \w+\s*\([^)]*\borg_id\b")
OF_ITSELF = re.compile(r"\b(?:o\.)?id = \$\d|INSERT INTO organizations")  # organizations by their id

# Tables that belong to the service and not to an organization.
GLOBAL_TABLES = {
    "journal_streams": "cursors and leases of the service's own processes",
    "journal_slots": "which of the journal's tables is written now",
    "journal_": "rows of many organizations; each line names its own",
    "journal_dead_letters": "lines that VictoriaMetrics refused; each names its own",
    "tsdb_instances": "the starts of each VictoriaMetrics",
    "claims": "which process does what for a while",
    "schema_migrations": "which migrations were applied",
    "login_failures": "counted before it is known who logs in",
    "pg_tables": "Postgres' own",
    "pg_roles": "Postgres' own",
    "pg_database": "Postgres' own",
}

# Statements over organizations' tables that span organizations on purpose.
SPANNING = {
    "monitor/alerts/live/store.py:rules_of": "rules of the organizations of a batch",
    "monitor/alerts/live/store.py:open_alerts": "alerts of the agents of a batch, locked",
    "monitor/alerts/live/store.py:sample_times": "agents of a batch, locked",
    "monitor/alerts/live/store.py:write_agents": "joins id and org_id of each agent of a batch, locked",
    "monitor/alerts/live/store.py:resolve_alerts": "joins id and org_id of each alert of a batch's agents",
    "monitor/alerts/live/store.py:offline_agents": "agent_up 0 is judged for all organizations",
    "monitor/alerts/live/store.py:lock_offline": "agent_up 0 is judged for all organizations",
    "monitor/alerts/live/store.py:firing": "alerts_firing is written for all organizations",
    "monitor/alerts/live/store.py:forget_resolved": "sweeps what was resolved long ago, of all organizations",
    "monitor/auth/store.py:tenants_by_api_key": "finds out which organization each is, by the key's hash",
    "monitor/auth/store.py:agent_by_token": "finds out which organization it is, by the token's hash",
    "monitor/auth/store.py:user_by_email": "finds out which organization it is, by the login name",
    "monitor/auth/store.py:touch_api_keys": "keys that authenticated, by id, of all in one statement",
    "monitor/auth/store.py:list_organizations": "the operator's command line lists them all",
    "monitor/auth/store.py:delete_api_key_of_any": "the operator's command line revokes by id",
    "monitor/ingest/store.py:lock_agents": "a batch of agents that showed their tokens, of any organization",
    "monitor/ingest/store.py:living_agents": "agents of that batch",
    "monitor/ingest/store.py:stored_containers": "agents of that batch, locked",
    "monitor/ingest/store.py:note_sign_of_life": "agents of that batch, locked",
    "monitor/ingest/store.py:write_states": "joins id and org_id of each agent of that batch",
    "monitor/journal/store.py:deleted_agents": "tombstones that hold back samples, of all organizations",
    "monitor/notify/store.py:claim_channel": "takes the next channel with something due, of whichever organization",
    "monitor/notify/store.py:forget_old": "sweeps what was told or given up, of all organizations",
    "monitor/commands/store.py:polls_to_wake": "joins org_id and agent_id of each poll that waits here",
    "monitor/commands/store.py:forget_old": "old commands of all organizations",
    "monitor/logs/ingest/store.py:lock_agents": "a batch of agents that showed their tokens, of any organization",
    "monitor/logs/ingest/store.py:forget_batch_ids": "agents of that batch",
    "monitor/logs/store.py:due": "the service compacts the rows of all organizations",
    "monitor/logs/store.py:retentions": "the service drops what has outlived its retention, of all organizations",
    "monitor/logs/store.py:drop_before": "several organizations with the same retention in one statement",
    "monitor/logs/store.py:add_days": "the days of all organizations' rows",
    "monitor/logs/tail/store.py:waiting_requests": "agents of a batch of pushes, locked",
    "monitor/logs/tail/store.py:offer_again": "agents of all organizations that fell silent",
    "monitor/logs/tail/store.py:forget_ended": "the service forgets what has ended, of all organizations",
    "monitor/logs/tail/lines/store.py:note_watched": "joins org_id and id of each request watched here",
    "monitor/logs/tail/lines/store.py:read_new": "joins org_id and id of each request watched here",
    "monitor/scaling/live/store.py:due_to_wake": "wake metrics are asked for all organizations",
    "monitor/scaling/log/store.py:heads_to_tell": "the heads of all organizations' logs are told once a day",
    "monitor/lifecycle/store.py:claim_due": "the service's own deletion passes, of all organizations",
    "monitor/lifecycle/store.py:stop_hiding": "the service's own deletion passes, of all organizations",
    "monitor/lifecycle/store.py:offline_agents": "agent_up 0 is written for all organizations",
}

# SQL outside of stores and of db/.
SQL_ELSEWHERE = {
    "monitor/dev/postgres.py": "makes the roles and the database of a server of its own",
    "monitor/web/health.py": "asks Postgres for a sign of life",
}

# asyncpg outside of db/ and of stores.
ASYNCPG_ELSEWHERE = {
    "monitor/dev/postgres.py": "starts a server and asks it whether it is up",
    "monitor/dev/account.py": "makes the first account without a running service",
}

# Tasks that are not a round of background(); each is awaited or cancelled where it is made.
TASKS = {
    "monitor/web/background.py": "the rounds themselves",
    "monitor/collector/kubernetes/logs.py": "one reader a container, in a group that ends with the shipper",
    "monitor/collector/kubernetes/source.py": "the cluster's watches, ended with its context",
    "monitor/collector/logs/ship.py": "one reader a container, in a group that ends with the shipper",
    "monitor/collector/tail.py": "one a tail and its reader, ended with the agent",
    "monitor/collector/run.py": "the agent's collecting and delivering, ended together",
    "monitor/dev/stack.py": "the stack, and the signal that ends it",
    "monitor/auth/lookups.py": "asks for the waiting requests, ended with the app",
    "monitor/db/wakeups.py": "listens, ended with the app",
    "monitor/ingest/batch.py": "drains the waiting pushes, then ends",
    "monitor/logs/engine.py": "one a question, ended with it or with the search process",
    "monitor/logs/ingest/append.py": "drains the waiting batches, then ends",
    "monitor/logs/tail/lines/feeds.py": "one listener a request; a reader that ends when nothing is hinted at",
    "monitor/logs/process.py": "reads the search process's answers until that ends",
    "monitor/journal/journal.py": "one writer a stream, stopped with the journal",
    "monitor/serve.py": "the processes of the supervisor; the watch of the configuration file",
}

IMPURE = (
    "aiohttp",
    "asyncio",
    "asyncpg",
    "monitor.db",
    "monitor.tsdb.client",
    "monitor.web",
    "socket",
    "time",
)


class Statement(NamedTuple):
    """A string that looks like SQL.

    Attributes:
        place: ``monitor/x/store.py:function``, or the name of the module's constant.
        text: The string; ``{}`` stands where an f-string puts something in.
    """

    place: str
    line: int
    text: str


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings below *node* but for docstrings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in child.values)
            yield child.lineno, "".join(map(str, parts))
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.lineno, child.value
        else:
            yield from strings(child)


def statements(path: Path) -> list[Statement]:
    """Return the SQL of a module, with the function or constant that holds each."""
    found = []
    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        else:
            name = "module"
        place = f"{name_of(path)}:{name}"
        found += [Statement(place, line, text) for line, text in strings(node) if SQL.search(text)]
    return found


def holds_sql(path: Path) -> bool:
    return path.name == "store.py" or path.parent == PACKAGE / "db"


def tables_of(text: str) -> set[str]:
    return set(TABLE.findall(text)) - set(CTE.findall(text)) - {"unnest"}


def belongs_to_one(text: str) -> bool:
    """Return whether a statement touches rows of one organization, or of none."""
    owned = tables_of(text) - GLOBAL_TABLES.keys()
    if not owned or OF_ONE.search(text):
        return True
    return owned == {"organizations"} and OF_ITSELF.search(text) is not None


STATEMENTS = [statement for path in MODULES if holds_sql(path) for statement in statements(path)]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each imported module and whether only the type checker imports it."""
    typing_only = {
        id(child)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", id(node) in typing_only
            yield from ((f"{node.module}.{alias.name}", id(node) in typing_only) for alias in node.names)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def loaded_with(path: Path) -> set[str]:
    """Return what is imported when the module at *path* is, through all of our own modules."""
    seen: set[str] = set()
    waiting = [path]
    while waiting:
        for module, typing_only in imports(waiting.pop()):
            if typing_only or module in seen:
                continue
            seen.add(module)
            ours = ROOT / Path(*module.split("."))
            waiting += [file for file in (ours.with_suffix(".py"), ours / "__init__.py") if file.is_file()]
    return seen


def contract(name: str) -> configparser.SectionProxy:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    return config[f"importlinter:contract:{name}"]


def pure_modules() -> list[Path]:
    """Return the files of the modules that setup.cfg calls pure."""
    files: list[Path] = []
    for module in contract("pure")["source_modules"].split():
        place = ROOT / Path(*module.split("."))
        files += sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return files


def calls_of(path: Path, name: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == name or getattr(node.func, "attr", None) == name)
    ]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_short_enough_to_be_read_at_once(path: Path):
    assert len(path.read_text("utf-8").splitlines()) <= MODULE_LINES


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("SELECT * FROM users WHERE org_id = $1", True),
        ("SELECT * FROM users WHERE id = $1", False),
        ("SELECT org_id FROM users", False),
        ("SELECT 1 FROM users u JOIN organizations o ON o.id = u.org_id WHERE u.id = $1", False),
        ("INSERT INTO users (id, org_id) VALUES ($1, $2)", True),
        ("INSERT INTO users (id) VALUES ($1)", False),
        ("UPDATE organizations SET plan = $2 WHERE id = $1", True),
        ("SELECT id FROM organizations ORDER BY id", False),
        ("DELETE FROM login_failures WHERE email = $1", True),
        ("WITH gone AS (DELETE FROM agents WHERE id = $1 RETURNING id) SELECT id FROM gone", False),
    ],
)
def test_the_check_of_statements_sees_whose_rows_they_touch(text: str, is_one: bool):
    assert SQL.search(text)
    assert belongs_to_one(text) is is_one


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda it: f"{it.place}:{it.line}")
def test_a_statement_names_the_organization_whose_rows_it_touches(statement: Statement):
    assert belongs_to_one(statement.text) or statement.place in SPANNING, (
        "compare org_id with a parameter, or list it in SPANNING with the reason"
    )


def test_every_exception_to_the_organizations_is_needed():
    needed = {statement.place for statement in STATEMENTS if not belongs_to_one(statement.text)}

    assert SPANNING.keys() - needed == set()
    used = {table for statement in STATEMENTS for table in tables_of(statement.text)}
    assert GLOBAL_TABLES.keys() - used <= {"pg_database"}


def test_sql_stands_in_stores_alone():
    elsewhere = {name_of(path) for path in MODULES if not holds_sql(path) and statements(path)}

    assert elsewhere == SQL_ELSEWHERE.keys()


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "store.py"], ids=name_of)
def test_a_store_takes_its_connection_first_and_opens_no_transaction(path: Path):
    functions = [node for node in tree_of(path).body if isinstance(node, ast.AsyncFunctionDef)]

    assert functions
    for function in functions:
        assert function.args.args[0].arg == "conn", function.name
    assert calls_of(path, "transaction") == calls_of(path, "get_logger") == []


def test_only_stores_and_the_pool_know_the_driver():
    knowing = {
        name_of(path)
        for path in MODULES
        if not holds_sql(path) and any(is_within(module, ("asyncpg",)) for module, _ in imports(path))
    }

    assert knowing == ASYNCPG_ELSEWHERE.keys()


@pytest.mark.parametrize("path", pure_modules(), ids=name_of)
def test_a_pure_module_loads_no_clock_and_no_io(path: Path):
    reached = {module for module in loaded_with(path) if is_within(module, IMPURE)}

    assert reached == set()


def test_tasks_are_made_in_few_places_and_have_names():
    makers = {
        name_of(path): calls
        for path in MODULES
        if (calls := calls_of(path, "create_task") + calls_of(path, "ensure_future"))
    }

    assert makers.keys() == TASKS.keys(), "use background(), or list it in TASKS with the reason"
    unnamed = [
        f"{name}:{call.lineno}"
        for name, calls in makers.items()
        for call in calls
        if "name" not in {keyword.arg for keyword in call.keywords}
    ]
    assert unnamed == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_printed_past_the_log(path: Path):
    assert calls_of(path, "print") == []


def test_every_package_has_its_place_in_the_layers():
    placed = set(re.findall(r"\w+", contract("layers")["layers"]))

    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}

    assert (packages | modules) - placed == set()


def test_the_migrations_are_numbered_without_a_gap():
    files = read_files(ROOT / "migrations")

    assert [number for number, _, _ in files] == list(range(1, len(files) + 1))
    assert {path.name for path in (ROOT / "migrations").iterdir()} == {
        *(name for _, name, _ in files),
        "grants.sql",
    }


@pytest.mark.parametrize(
    "names", [("0001_a.sql", "0003_b.sql"), ("0001_a.sql", "0001_b.sql"), ("0002_a.sql",)]
)
def test_a_gap_or_a_double_in_the_migrations_is_refused(tmp_path: Path, names: tuple[str, ...]):
    for name in names:
        (tmp_path / name).write_text("SELECT 1")

    with pytest.raises(MigrationError, match="expected number"):
        read_files(tmp_path)
