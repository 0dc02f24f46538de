"""What one gateway instance does with what is sent to all, or to it alone: pass it on to clients, wake who waits."""

from __future__ import annotations

from placet.contracts.messages import (
    ApprovalCommented,
    ConversationDelta,
    ConversationItems,
    DecisionAnswered,
    JobEvents,
    RulebookTried,
)
from placet.gateway.admin.trials import Trials
from placet.gateway.approvals.decisions import Decisions
from placet.gateway.conversations.items import Delta
from placet.gateway.conversations.live import Hub, Topic
from placet.gateway.conversations.log import announced_items
from placet.gateway.jobs.log import job_topic
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope


async def pass_on(delivery: Delivery, hub: Hub) -> None:
    """Hand new items and pieces of text to the clients of this instance."""
    if hub.is_idle and delivery.key.startswith(("items.", "job.", "approval-commented")):
        return
    events, _ = read_envelope(delivery.body)
    for event in events:
        match event.message:
            case ConversationItems(tenant=tenant, conversation_id=conversation_id, items=items):
                hub.tell_items(Topic(tenant, conversation_id), announced_items(items))
            case JobEvents(tenant=tenant, job_id=job_id, events=lines):
                hub.tell_items(job_topic(tenant, job_id), announced_items(lines))
            case ConversationDelta() as piece:
                delta = Delta(**piece.model_dump(exclude={"tenant", "conversation_id"}))
                hub.tell_delta(Topic(piece.tenant, piece.conversation_id), delta)
            case ApprovalCommented(tenant=tenant, approval_id=approval_id):
                hub.tell_comment(tenant, approval_id)


async def take_answer(delivery: Delivery, decisions: Decisions, trials: Trials) -> None:
    """Wake who waits for an answer."""
    events, _ = read_envelope(delivery.body)
    for event in events:
        match event.message:
            case DecisionAnswered() as message:
                decisions.answered(message)
            case RulebookTried() as message:
                trials.answered(message)
