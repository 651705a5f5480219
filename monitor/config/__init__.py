"""One YAML file, read once into frozen structs.

Unknown keys and bad values are errors with the file's line, all of them at once.
Retention, limits and the log level are taken over while serving; everything else holds
until the next start.
"""

from monitor.config.document import ConfigError, Problem
from monitor.config.load import changed_keys, load, reload, restart_keys
from monitor.config.models import (
    Auth,
    Config,
    Journal,
    Kind,
    Limits,
    Log,
    Metrics,
    Notifications,
    OrgLimits,
    OrgLimitsOverride,
    Postgres,
    Retention,
    RetentionDefault,
    RetentionOverride,
    Server,
    Smtp,
    VictoriaMetrics,
)
from monitor.config.values import split_listen
from monitor.config.watch import CONFIG, ConfigFile

__all__ = [
    "CONFIG",
    "Auth",
    "Config",
    "ConfigError",
    "ConfigFile",
    "Journal",
    "Kind",
    "Limits",
    "Log",
    "Metrics",
    "Notifications",
    "OrgLimits",
    "OrgLimitsOverride",
    "Postgres",
    "Problem",
    "Retention",
    "RetentionDefault",
    "RetentionOverride",
    "Server",
    "Smtp",
    "VictoriaMetrics",
    "changed_keys",
    "load",
    "reload",
    "restart_keys",
    "split_listen",
]
