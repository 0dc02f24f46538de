"""Policy: one verdict for each proposed call.

Owns: the rulebook (`rulebook`), its conditions (`conditions`), the judging itself (`rules`, pure), its verdicts, the
counters of its limits (`limits`) and what people granted (`grants`).
Consumes: ToolCallProposed, GrantAsked, RevokeGrant, and ToolCallRefused for what comes back. Emits: ToolCallPermitted,
ToolCallRefused or ApprovalRequested, one per call. It has no state machine: a verdict is given once and never changes.
Promises: an unknown tool is refused, a rule that cannot be evaluated holds the call, nothing is ever let through by an
error, and no limit is passed however many calls come at once. Every verdict names its rule or its grant, and the digest
of the rulebook it comes from.
"""
