"""Approval: a held call waits here until people, the clock or the agent end its waiting.

Owns: approvals (`states`, `rules`), the decisions people sent, and what it heard first about each call. Consumes:
ApprovalRequested, DecideApproval, CallsWithdrawn, AbandonCall. Emits: ApprovalOpened, then exactly one of
ToolCallPermitted and ToolCallRefused together with ApprovalClosed; DecisionAnswered for each decision. Promises: one
approval per call; what is decided never changes; a decision counts only for the digest and revision its maker saw,
from a person whom the rule names, before the deadline by the database clock, read after the row is locked; each
decision id is handled once.
"""
