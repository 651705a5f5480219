"""What ends the agent, and what only makes it wait.

Everything that goes wrong on the agent's side is one of these: an operator must
act, the service is away, the service refuses one body, or the engine is away.
"""

from __future__ import annotations


class CollectorError(Exception):
    """Base of what can go wrong on the agent's side; the text is for its operator."""


CREDENTIAL_REFUSED = 3  # exit code: a service manager need not start the agent again


class AgentStopped(CollectorError):
    """The agent cannot go on until its operator acts; the text says what to do.

    Attributes:
        exit_code: 1, 2 where the options contradict what is stored, or CREDENTIAL_REFUSED.
    """

    def __init__(self, text: str, *, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(text)


class ServiceAway(CollectorError):
    """The service did not take a request that it may take later.

    Attributes:
        retry_after_seconds: How long the service asked to wait, 0 if it did not.
    """

    def __init__(self, text: str, *, retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(text)


class BodyRefused(CollectorError):
    """The service will never take this body; the text is the service's own."""


class EngineAway(CollectorError):
    """The container engine could not be read in this round."""


class ContainerGone(CollectorError):
    """The engine does not know a container any more."""


class TailFailed(CollectorError):
    """A log cannot be tailed; the text is shown to its viewer."""


class TailOver(CollectorError):
    """The service wants no more lines of a live tail; the text says why."""


class CommandFailed(CollectorError):
    """A command could not be executed; the text is reported to the service."""
