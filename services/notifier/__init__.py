"""Notifier: tells people, in the places they are, that something waits for them and what became of it.

Owns: deliveries (one card of one approval at one address), mails with their links, events for webhooks,
and how fast channels may be used.
Consumes: ApprovalOpened, ApprovalProgressed, ApprovalClosed, ToolCallProgressed, ToolCallFinished, ToolCallRefused,
MailBounced, RetryDelivery, RetryWebhookEvent, KeyOffered, ApprovalCommented.
Emits: nothing; it acts on the outside world: claim, acknowledge, act, settle.
Promises: every open approval has a delivery per address, each card follows every revision in order, no approval that
nobody was told of runs out of time without an alarm, and nobody is ever approved because notifying failed. Channels
are in `channels/`: the service's own log, Slack, mail, webhooks, and Apprise.
"""
