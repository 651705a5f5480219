"""The words of a chunk: the distinct letter runs of its messages.  Pure.

A text can only occur in a chunk if each of its runs of three and more letters is part
of one of the chunk's; so most chunks need not be read for a rare word.  Texts without
such a run, like most ids, are looked for in every chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import zstandard

from monitor.logs.query import LETTERS

MAX_BYTES = 128 * 1024  # of the words of a chunk of about 1 MiB: more are noise that finds nothing

_ASCII_LETTERS = re.compile(rb"[a-z]{3,}")
_compressor = zstandard.ZstdCompressor(level=6)


def words_of(text: bytes, beyond_ascii: Iterable[bytes]) -> bytes:
    """Return the compressed words of *text*; empty if they are too many to help.

    Args:
        text: All messages, with something between two that is no letter.
        beyond_ascii: Those messages that are not ASCII.
    """
    words = {word.decode() for word in set(_ASCII_LETTERS.findall(text.lower()))}
    for message in beyond_ascii:
        words.update(LETTERS.findall(message.decode().casefold()))
    joined = "\n".join(sorted(words)).encode()
    return _compressor.compress(joined) if len(joined) <= MAX_BYTES else b""


def may_hold(words: bytes, runs: Iterable[str]) -> bool:
    """Return False if no message of the chunk holds all the letter *runs*."""
    if not words:
        return True
    joined = zstandard.ZstdDecompressor().decompress(words)
    return all(run.encode() in joined for run in runs)
