"""Lists of the inbox that people keep under a name."""

from __future__ import annotations

from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.support.gateway import House


async def test_a_view_that_is_kept_stands_among_the_others(house: House) -> None:
    """Its name leads to the list, and is what that page is called by; once it is deleted it is gone."""
    async with signed_in(house, "ada") as browser:
        form = Form("/inbox/views", (await browser.get("/inbox?tool=ship")).text).fields
        kept = await browser.post("/inbox/views", data=form | {"name": "ships"})
        page = (await browser.get("/inbox?tool=ship")).text
        gone = await browser.post("/inbox/views/delete", data=Form("/inbox/views/delete", page).fields)
        after = (await browser.get("/inbox")).text
    assert (303, 303) == (kept.status_code, gone.status_code)
    assert '<a href="/inbox?tool=ship" aria-current="page">ships</a>' in page
    assert "ships" not in after
