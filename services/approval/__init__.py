"""Approval: a held call waits here until people, the clock or the agent end its waiting.

Owns: approvals (`states`, `rules`), the decisions people sent, their edits, and what it heard first about each call.
Consumes: ApprovalRequested, DecideApproval, EditJudged, CallsWithdrawn, AbandonCall. Emits: ApprovalOpened,
ApprovalProgressed for each change of the card, then exactly one of ToolCallPermitted and ToolCallRefused together with
ApprovalClosed, and StagedCallPermitted for each staged call that people let through with its workspace;
DecisionAnswered for each decision; EditProposed, GrantAsked and WatchedCallClosed for policy.
Promises: one approval per call; what is decided never changes; a decision counts only for the digest its maker saw,
from a person whom the rule names and the directory does not say is inactive, before the deadline by the database clock,
read after the row is locked; a person counts once over all channels; all counted votes are judged anew with the
decision that permits the call; an edit voids the votes before it; each decision id is handled once; each reminder and
escalation is sent once; calls approved together are permitted in the order of the model.
"""
