"""The configuration as frozen structs: the field types are its schema.

A field's name is its key in the YAML file, unless ``field(name=...)`` says another.
Rules that span fields stand in ``__post_init__``, so a struct that exists is valid.
Printing a struct shows ``***`` instead of secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, fields

from monitor.config.values import (
    AnySecret,
    AnyText,
    Ceiling,
    Dsn,
    Flag,
    Host,
    HttpUrl,
    JwtSecret,
    LabelKey,
    Listen,
    MailAddress,
    Network,
    OrgId,
    PlanName,
    RetentionSeconds,
    Secret,
    TimeoutSeconds,
)

DAY_SECONDS = 86_400

Kind = Literal["metrics", "logs"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]


def is_secret(hint: Any) -> bool:
    """Say whether a value of type *hint*, or an element of it, is annotated as secret."""
    return Secret in getattr(hint, "__metadata__", ()) or any(is_secret(arg) for arg in get_args(hint))


class Section(Struct, frozen=True):
    """A mapping of the YAML file."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._shown())})"

    # Rich, which prints tracebacks with local variables, asks this instead of __repr__.
    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return list(self._shown())

    def _shown(self) -> Iterator[tuple[str, Any]]:
        for item in fields(self):
            value = getattr(self, item.name)
            yield item.name, "***" if value and is_secret(item.type) else value


class Server(Section, frozen=True):
    """Where the service listens and how many web processes it has.

    ``internal_listen`` (None: off) serves /metrics; ``public_url`` is what links in
    notifications begin with.
    """

    listen: Listen = "127.0.0.1:8080"
    internal_listen: Listen | None = "127.0.0.1:9464"
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    trusted_proxies: tuple[Network, ...] = ()
    public_url: HttpUrl | None = None

    def __post_init__(self) -> None:
        if self.internal_listen == self.listen:
            raise ValueError("internal_listen must differ from listen")


class Postgres(Section, frozen=True):
    """The database: ``dsn`` serves, ``owner_dsn`` migrates (None: ``dsn`` does both).

    ``pool_size`` is per process.
    """

    dsn: Dsn
    owner_dsn: Dsn | None = None
    pool_size: Annotated[int, Meta(ge=1, le=1000)] = 10


class VictoriaMetrics(Section, frozen=True):
    """The sample store: a single node by ``url``, or a cluster by its three kinds of URL."""

    url: HttpUrl | None = None
    insert_url: HttpUrl | None = None
    select_url: HttpUrl | None = None
    storage_urls: tuple[HttpUrl, ...] = ()
    query_timeout_seconds: TimeoutSeconds = field(default=30.0, name="query_timeout")
    concurrent_queries_per_org: Annotated[int, Meta(ge=1, le=10_000)] = 16

    def __post_init__(self) -> None:
        cluster = (self.insert_url, self.select_url, self.storage_urls)
        if self.url and any(cluster):
            raise ValueError("url and insert_url, select_url, storage_urls exclude each other")
        if not self.url and not all(cluster):
            raise ValueError("needs url, or all of insert_url, select_url and storage_urls")

    @property
    def write_base(self) -> str:
        """The URL below which samples are written, without a trailing slash."""
        return (self.url or self.insert_url or "").rstrip("/")

    @property
    def read_base(self) -> str:
        """The URL below which queries are answered, without a trailing slash."""
        return (self.url or self.select_url or "").rstrip("/")

    @property
    def watch_bases(self) -> tuple[str, ...]:
        """The URLs of the processes whose restart loses samples, without trailing slashes."""
        return tuple(url.rstrip("/") for url in ((self.url,) if self.url else self.storage_urls))


class Auth(Section, frozen=True):
    """Secrets of the login tokens: the first signs, all verify."""

    jwt_secrets: Annotated[tuple[JwtSecret, ...], Meta(min_length=1)]


class RetentionDefault(Section, frozen=True):
    """Retention in seconds where neither organization nor plan names one."""

    metrics: RetentionSeconds = 30 * DAY_SECONDS
    logs: RetentionSeconds = 7 * DAY_SECONDS


class RetentionOverride(Section, frozen=True):
    """Retention in seconds of a plan or an organization; None leaves the next wider one."""

    metrics: RetentionSeconds | None = None
    logs: RetentionSeconds | None = None


class Retention(Section, frozen=True):
    """How long samples and log lines are kept: organization, else plan, else default.

    Attributes:
        alerts: Seconds for which resolved alerts are kept, whoever's they are.
    """

    default: RetentionDefault = RetentionDefault()
    plans: dict[PlanName, RetentionOverride] = {}
    organizations: dict[OrgId, RetentionOverride] = {}
    alerts: RetentionSeconds = 90 * DAY_SECONDS

    def ceiling(self, kind: Kind, org_id: str, plan: str) -> int:
        """Return the seconds above which an organization's own setting does not count."""
        for override in (self.organizations.get(org_id), self.plans.get(plan)):
            seconds: int | None = getattr(override, kind, None)
            if seconds is not None:
                return seconds
        default: int = getattr(self.default, kind)
        return default

    def effective(self, kind: Kind, org_id: str, plan: str, own_seconds: int | None) -> int:
        """Return the seconds that hold: the organization's own setting up to its ceiling."""
        ceiling = self.ceiling(kind, org_id, plan)
        return ceiling if own_seconds is None else min(own_seconds, ceiling)

    def longest(self, kind: Kind) -> int:
        """Return the largest seconds configured anywhere, which storage has to keep."""
        overrides = (*self.plans.values(), *self.organizations.values())
        return max(getattr(it, kind) or 0 for it in (self.default, *overrides))


class OrgLimits(Section, frozen=True):
    """What one organization may have at most."""

    agents: Ceiling = 20_000
    series_per_push: Ceiling = 50_000
    rules: Ceiling = 2_000
    policies: Ceiling = 20_000
    log_lines_per_second: Ceiling = 100_000
    log_mib_per_day: Ceiling = 204_800
    tails: Ceiling = 10
    tail_minutes: Ceiling = 60


class OrgLimitsOverride(Section, frozen=True):
    """The limits that an organization has of its own; None leaves the default."""

    agents: Ceiling | None = None
    series_per_push: Ceiling | None = None
    rules: Ceiling | None = None
    policies: Ceiling | None = None
    log_lines_per_second: Ceiling | None = None
    log_mib_per_day: Ceiling | None = None
    tails: Ceiling | None = None
    tail_minutes: Ceiling | None = None


class Limits(Section, frozen=True):
    """Ceilings per organization."""

    default: OrgLimits = OrgLimits()
    organizations: dict[OrgId, OrgLimitsOverride] = {}

    def for_org(self, org_id: str) -> OrgLimits:
        """Return the limits of *org_id*: its own, the default's where it has none."""
        override = self.organizations.get(org_id)
        if override is None:
            return self.default
        own = {name: value for name, value in asdict(override).items() if value is not None}
        return OrgLimits(**{**asdict(self.default), **own})


class Metrics(Section, frozen=True):
    """Container and pod labels that become metric labels, by their keys."""

    # At most 8 labels of ours and 12 of these: 20 per series, well below the 30 that every
    # supported VictoriaMetrics keeps.
    label_allowlist: Annotated[tuple[LabelKey, ...], Meta(max_length=12)] = ()


class Journal(Section, frozen=True):
    """How much waits for VictoriaMetrics, in MiB of Postgres, before pushes get 503."""

    max_backlog_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = 8192


class Smtp(Section, frozen=True):
    """The mail server that takes notifications by e-mail; without ``host`` there are none.

    With ``starttls`` nothing is said to a server that cannot encrypt.  ``allow_private``
    lets the server be at an address that is no public one.
    """

    host: Host | None = None
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    username: AnyText | None = None
    password: AnySecret | None = None
    sender: MailAddress | None = field(default=None, name="from")
    starttls: Flag = True
    allow_private: Flag = False

    def __post_init__(self) -> None:
        if self.host and not self.sender:
            raise ValueError("host needs from")
        if bool(self.username) != bool(self.password):
            raise ValueError("username and password need each other")
        if self.password and not self.starttls:
            raise ValueError("a password is sent with starttls only")


class Notifications(Section, frozen=True):
    """Where notifications may go.

    ``allow_private_targets`` lets organizations' channels reach addresses that are not
    public; ``apprise`` allows channels of that type, which nothing guards.
    """

    allow_private_targets: Flag = False
    apprise: Flag = False
    smtp: Smtp = Smtp()


class Log(Section, frozen=True):
    """What the service writes to stderr."""

    level: LogLevel = "info"
    format: LogFormat = "json"


class Config(Section, frozen=True, kw_only=True):
    """The whole file."""

    server: Server = Server()
    postgres: Postgres
    victoriametrics: VictoriaMetrics
    auth: Auth
    retention: Retention = Retention()
    limits: Limits = Limits()
    metrics: Metrics = Metrics()
    journal: Journal = Journal()
    notifications: Notifications = Notifications()
    log: Log = Log()
