"""Notifier: tells people, in the places they are, that something waits for them and what became of it.

Owns: deliveries (one card of one approval in one channel). Consumes: ApprovalOpened, ApprovalProgressed,
ApprovalClosed. Emits: nothing; it acts on the outside world: claim, acknowledge, act, settle. Promises: every open
approval has a delivery per channel, each card follows every revision in order, and nobody is ever approved because
notifying failed. The one channel so far is the service's own log; Slack and e-mail are channels beside it.
"""
