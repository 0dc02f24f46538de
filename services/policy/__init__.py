"""Policy: one verdict for each proposed call.

Owns: the rulebook (`rulebook`), the judging itself (`rules`, pure: conditions, limits, grants, edits and what is
watched), its verdicts, the counters of its limits, what people granted, and which rulebook was active when (`active`).
Consumes: ToolCallProposed, EditProposed, GrantAsked, RevokeGrant, ToolCallRefused, CallResolved and StagedCallsDropped
for what comes back, WatchedCallClosed for denials, CallApproved where the rules have changed, AbandonCall and
TryRulebook. Emits: ToolCallPermitted, ToolCallRefused or ApprovalRequested, one per call, and StagedCallPermitted for
the calls of a commit that a rule lets through; EditJudged, one per edit; and RulebookTried. A verdict is given once and
never changes; a grant has states. Promises: an unknown tool is refused, a rule that cannot be evaluated holds the call,
nothing is ever let through by an error, no limit is passed however many calls come at once, and a rulebook with a
mistake never takes over. Every verdict names its rule or its grant, and the digest of the rulebook it comes from.
"""
