"""What ``q`` asks for: words and phrases that must occur, others that must not.  Pure.

Words stand between white space; ``"…"`` is a phrase, white space and all; ``-`` before
either excludes it.  Every other character is itself: there are no escapes and no
wildcards, and a quote that is not closed is part of its word.  A word or phrase occurs
where the message holds it anywhere, upper and lower case alike (Unicode's casefold).
"""

from __future__ import annotations

import re

from msgspec import Struct

from monitor.errors import BadRequest

MAX_CHARACTERS = 4_096  # of q
MAX_TERMS = 64

_TERM = re.compile(r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"|(?P<word>\S+))')
# A maximal run of letters; white space, digits and signs stand between two.
LETTERS = re.compile(r"[^\W\d_]{3,}")


class Query(Struct, frozen=True):
    """Casefolded texts that must occur in a message, and those that must not."""

    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every message matches."""
        return not self.included and not self.excluded

    def matches(self, folded: str) -> bool:
        """Return whether a casefolded message is asked for."""
        return all(text in folded for text in self.included) and not any(
            text in folded for text in self.excluded
        )

    def letter_runs(self) -> list[str]:
        """Return the runs of three and more letters that a matching message must hold."""
        return [run for text in self.included for run in LETTERS.findall(text)]


def parse_query(q: str) -> Query:
    """Return what *q* asks for; a lone ``-`` is a word, an empty phrase asks for nothing.

    Raises:
        BadRequest: Too long, or too many terms.
    """
    if len(q) > MAX_CHARACTERS:
        raise BadRequest(f"q: longer than {MAX_CHARACTERS:,} characters", field="q")
    included: dict[str, None] = {}
    excluded: dict[str, None] = {}
    for match in _TERM.finditer(q):
        phrase = match["phrase"]
        text = match["word"] if phrase is None else phrase
        if text:
            (excluded if match["minus"] else included)[text.casefold()] = None
    if len(included) + len(excluded) > MAX_TERMS:
        raise BadRequest(f"q: more than {MAX_TERMS} words and phrases", field="q")
    return Query(tuple(included), tuple(excluded))
