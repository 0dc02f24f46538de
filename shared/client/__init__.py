"""A typed client of Placet's HTTP API, synchronous and for asyncio (`AsyncClient`). It needs the extra `client`.

with Client("http://127.0.0.1:8080", key) as placet:
    conversation = placet.open_conversation(visitor="ada")
    conversation.post("create a payment link over 299 TRY")
    for item in conversation.follow():
        match item:
            case ApprovalItem(data=card) if card.waits:
                placet.decide(placet.approval(card.approval_id), "approve")
            case TurnItem(data=turn) if turn.is_over:
                break
"""

from __future__ import annotations

from placet.client.async_client import AsyncClient, AsyncConversation
from placet.client.items import (
    ApprovalItem,
    DecisionItem,
    Delta,
    EndedItem,
    HolderItem,
    Item,
    MessageItem,
    OtherItem,
    ProgressItem,
    ResolutionItem,
    ToolCallItem,
    TurnItem,
)
from placet.client.models import (
    Approval,
    ConversationView,
    Job,
    JobAttempt,
    JobLine,
    JobTask,
    Posted,
    StagedChange,
    StagedEntry,
    ToolCall,
    Workspace,
)
from placet.client.requests import ApiError
from placet.client.sync_client import Client, Conversation

__all__ = [
    "ApiError",
    "Approval",
    "ApprovalItem",
    "AsyncClient",
    "AsyncConversation",
    "Client",
    "Conversation",
    "ConversationView",
    "DecisionItem",
    "Delta",
    "EndedItem",
    "HolderItem",
    "Item",
    "Job",
    "JobAttempt",
    "JobLine",
    "JobTask",
    "MessageItem",
    "OtherItem",
    "Posted",
    "ProgressItem",
    "ResolutionItem",
    "StagedChange",
    "StagedEntry",
    "ToolCall",
    "ToolCallItem",
    "TurnItem",
    "Workspace",
]
