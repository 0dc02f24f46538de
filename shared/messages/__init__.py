"""Every message of Placet. `MESSAGES` maps the type on the wire to its class."""

from __future__ import annotations

from shared.messages.approvals import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    ApprovalRequested,
    ApprovalRule,
    DecideApproval,
    DecisionAnswered,
    DecisionClaims,
    EditJudged,
    EditProposed,
    Escalation,
    GrantTerms,
    GrantWish,
    Panel,
    Strength,
    WatchedCallClosed,
)
from shared.messages.conversations import (
    Author,
    ConversationDelta,
    ConversationEvent,
    FeedAdvanced,
    MessagePosted,
)
from shared.messages.dead_letters import AbandonCall, ResolveDeadLetter
from shared.messages.deliveries import RetryDelivery
from shared.messages.grants import GrantAsked, RevokeGrant
from shared.messages.mail import MailBounced
from shared.messages.message import ENVELOPE_EVENTS_MAX, Event, Message, ResultKind, event_from
from shared.messages.rulebook import RulebookTried, TryRulebook
from shared.messages.tool_calls import (
    CallResolved,
    CallsWithdrawn,
    Edited,
    ResolveCall,
    ShownCall,
    ToolCall,
    ToolCallFinished,
    ToolCallPermitted,
    ToolCallProposed,
    ToolCallRefused,
)

MESSAGES: dict[str, type[Message]] = {
    cls.type_name: cls
    for cls in (
        MessagePosted,
        ConversationEvent,
        ConversationDelta,
        FeedAdvanced,
        ToolCallProposed,
        ToolCallPermitted,
        ToolCallRefused,
        ToolCallFinished,
        ResolveCall,
        CallResolved,
        CallsWithdrawn,
        ApprovalRequested,
        ApprovalOpened,
        ApprovalProgressed,
        ApprovalClosed,
        WatchedCallClosed,
        DecideApproval,
        DecisionAnswered,
        EditProposed,
        EditJudged,
        GrantAsked,
        RevokeGrant,
        ResolveDeadLetter,
        AbandonCall,
        RetryDelivery,
        TryRulebook,
        RulebookTried,
        MailBounced,
    )
}

__all__ = [
    "ENVELOPE_EVENTS_MAX",
    "MESSAGES",
    "AbandonCall",
    "ApprovalClosed",
    "ApprovalOpened",
    "ApprovalProgressed",
    "ApprovalRequested",
    "ApprovalRule",
    "Author",
    "CallResolved",
    "CallsWithdrawn",
    "ConversationDelta",
    "ConversationEvent",
    "DecideApproval",
    "DecisionAnswered",
    "DecisionClaims",
    "EditJudged",
    "EditProposed",
    "Edited",
    "Escalation",
    "Event",
    "FeedAdvanced",
    "GrantAsked",
    "GrantTerms",
    "GrantWish",
    "MailBounced",
    "Message",
    "MessagePosted",
    "Panel",
    "ResolveCall",
    "ResolveDeadLetter",
    "ResultKind",
    "RetryDelivery",
    "RevokeGrant",
    "RulebookTried",
    "ShownCall",
    "Strength",
    "ToolCall",
    "ToolCallFinished",
    "ToolCallPermitted",
    "ToolCallProposed",
    "ToolCallRefused",
    "TryRulebook",
    "WatchedCallClosed",
    "event_from",
]
