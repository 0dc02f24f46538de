"""Notifier: tells people, in the places they are, that something waits for them and what became of it.

Owns: deliveries (one card of one approval at one address), events for webhooks, and how fast channels may be used.
Consumes: ApprovalOpened, ApprovalProgressed, ApprovalClosed, ToolCallProgressed, ToolCallFinished, ToolCallRefused,
RetryDelivery, RetryWebhookEvent. Emits: nothing; it acts on the outside world: claim, acknowledge, act, settle.
Promises: every open approval has a delivery per address, each card follows every revision in order, and nobody is ever
approved because notifying failed. Channels are in `channels/`: the service's own log, webhooks, and Apprise.
"""
