"""Every link of the documentation leads somewhere: relative paths exist, anchors are headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.operations.pages import PAGES, ROOT, anchors, name_of, without_fences

# [text](target), ![text](target), and the attributes of <picture>.
LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-z]+:")


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's links that stay within the checkout."""
    prose = re.sub(r"`[^`\n]*`", "", without_fences(text))
    for match in LINK.finditer(prose):
        target = unquote(match[1] or match[2])
        if not ELSEWHERE.match(target):
            yield target


def fault(page: Path, target: str) -> str | None:
    """Say what is wrong with a link, or return None."""
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    if not found.exists():
        return f"{target}: no such file"
    if not found.is_relative_to(ROOT):
        return f"{target}: outside of the checkout"
    if anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
        return f"{target}: no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_the_page_leads_somewhere(page: Path):
    faults = [fault(page, target) for target in links(page.read_text(encoding="utf-8"))]

    assert [one for one in faults if one] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path):
    page = ROOT / "page.md"
    text = "# A page\n[a](README.md#try-it) ![b](gone.png) [c](#a-page) [d](#gone)\n```sh\n[e](f)\n```\n"

    assert list(links(text)) == ["README.md#try-it", "gone.png", "#a-page", "#gone"]
    assert fault(page, "README.md#try-it") is None
    assert fault(page, "README.md#gone") == "README.md#gone: no such heading"
    assert fault(page, "gone.png") == "gone.png: no such file"
    assert fault(ROOT / "README.md", "../..") == "../..: outside of the checkout"
    assert anchors(text) == {"a-page"}


def test_the_newcomers_page_leads_to_every_other_page():
    reached, rest = set(), [ROOT / "README.md"]
    while rest:
        page = rest.pop()
        if page not in reached and page in PAGES:
            reached.add(page)
            paths = (target.partition("#")[0] for target in links(page.read_text(encoding="utf-8")))
            rest += [(page.parent / path).resolve() for path in paths if path]

    records = set((ROOT / "docs" / "adr").iterdir())  # linked as a folder
    assert {name_of(page) for page in set(PAGES) - reached - records} == set()
