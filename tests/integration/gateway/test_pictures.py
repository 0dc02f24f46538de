"""The pictures of the docs can be taken: every surface opens in a real browser and shows its card."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.gateway import House, open_house
from tests.support.inbox_scene import DIRECTORY
from tests.support.pictures import IMAGES, take_pictures

pytestmark = pytest.mark.timeout(240)
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people and groups."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


async def test_every_surface_has_its_picture_in_the_docs(house: House, browser: Browser, tmp_path: Path) -> None:
    """What is taken is what the pages about approvers and the inbox show, and what lies in the repository."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    await take_pictures(house, browser, folder)
    taken = {file.name for file in folder.iterdir() if file.read_bytes().startswith(PNG)}
    pages = "".join((IMAGES.parent / name).read_text() for name in ("approvers.md", "inbox.md"))
    shown = set(re.findall(r"\(images/([\w-]+\.png)\)", pages))
    assert shown == taken
    assert taken <= {file.name for file in IMAGES.iterdir()}
