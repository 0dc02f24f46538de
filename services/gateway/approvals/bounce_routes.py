"""Bounces: whatever receives mail for the return address hands it over here."""

from __future__ import annotations

import asyncio
from typing import Literal

import structlog
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from placet.contracts.messages import MailBounced
from placet.gateway.approvals.bounces import read_bounce
from placet.gateway.approvals.store.links import mail_is_of
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import CallerOf, DepsOf
from placet.gateway.http.strict import media_type
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/v1/mail", tags=["mail"])

_MEDIA_TYPE = "message/rfc822"


class Taken(BaseModel):
    """What a mail was taken for."""

    taken_as: Literal["bounce", "nothing"] = Field(description="`nothing`: it says of no mail of yours that it failed.")


# Not in the API's description: mail services post here, and a client that is generated cannot write mails.
@router.post("/bounces", status_code=202, include_in_schema=False)
async def bounce(request: Request, deps: DepsOf, caller: CallerOf) -> Taken:
    """Hand over a mail that came to the return address; a bounce sends its approvals to the rule's next channel."""
    caller.need(Scope.ADMIN)
    if media_type(request) != _MEDIA_TYPE:
        raise HTTPException(415, f"The body must be {_MEDIA_TYPE}.")
    found = await asyncio.to_thread(read_bounce, await request.body())
    if found is None:
        return Taken(taken_as="nothing")
    async with reading(deps.runtime.database) as connection:
        if not await mail_is_of(connection, caller.tenant, found.mail_id):
            return Taken(taken_as="nothing")
    async with writing(deps.runtime.units, caller) as work:
        news = {"mail_id": found.mail_id, "status": found.status, "reason": found.reason}
        work.emit(MailBounced(tenant=caller.tenant, **news))
    log.warning("mail.bounced", mail_id=found.mail_id, status=found.status)
    return Taken(taken_as="bounce")
