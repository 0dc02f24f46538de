"""A conversation's feed for clients that do not stream: the same items by GET, with a wait for the next one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from services.gateway.api.callers import CallerOf, DepsOf, PathId
from services.gateway.api.conversations import may_read
from services.gateway.api.errors import described
from services.gateway.api.events import start_of
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import NoCaller
from services.gateway.feed import ITEM_TYPES
from services.gateway.live import Topic
from services.gateway.polling import Poll

router = APIRouter(prefix="/v1/conversations", tags=["conversations"], route_class=StrictRoute)

#: Longest wait for an item, in seconds: proxies often end a request that is silent for a minute.
WAIT_SECONDS_MAX = 50
#: Items of one answer.
ITEMS_MAX = 1_000

After = Annotated[
    int, Query(ge=0, le=10**18 - 1, description="Number of the last item seen; `last_event_id` of the answer before.")
]
Wait = Annotated[
    float, Query(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait for an item where there is none yet.")
]
ItemLimit = Annotated[int, Query(ge=1, le=ITEMS_MAX, description="Items of one answer, the oldest first.")]


class FeedItemOut(BaseModel):
    """One thing that happened, as the event stream has it."""

    id: int = Field(description="Its number; they have no gaps.")
    type: str = Field(description=f"{', '.join(ITEM_TYPES[:-1])} or {ITEM_TYPES[-1]}.")
    at: datetime
    data: dict[str, Any]


class FeedOut(BaseModel):
    """What is new in a conversation."""

    items: list[FeedItemOut] = Field(description="Empty where nothing came in time.")
    last_event_id: int = Field(description="Ask again `after` this one; the event stream goes on from it, too.")


@router.get("/{conversation_id}/feed", responses=described(400, 401, 403, 404, 503))
async def poll(
    deps: DepsOf, caller: CallerOf, conversation_id: PathId, after: After = 0, wait: Wait = 0, limit: ItemLimit = 200
) -> FeedOut:
    """Return what happened after an item, without gap or repeat, also from another replica.

    Where nothing did, wait for it. Text as it is written is not here; the whole text follows as a message.
    """
    may_read(caller, conversation_id)
    topic = Topic(caller.tenant, conversation_id)
    start = await start_of(deps, topic, None, str(after))
    look_seconds = deps.settings.gateway_heartbeat_seconds
    found = await Poll(deps.hub, deps.runtime.database, topic, start, limit).items(wait, look_seconds)
    # Rights may have ended meanwhile.
    if wait and not await deps.authenticator.still(caller):
        raise NoCaller("The credentials are not valid any more.")
    items = [FeedItemOut(id=item.seq, type=item.type, at=item.at, data=item.data) for item in found]
    return FeedOut(items=items, last_event_id=items[-1].id if items else start)
