"""Policy: one verdict for each proposed call.

Owns: the rulebook (`rulebook`), its conditions (`conditions`), the judging itself (`rules`, pure), and its verdicts.
Consumes: ToolCallProposed, EditProposed. Emits: ToolCallPermitted, ToolCallRefused or ApprovalRequested, one per call;
EditJudged, one per edit (`edits`). It has no state machine: a verdict is given once and never changes. Promises: an
unknown tool is refused, a rule that cannot be evaluated holds the call, and nothing is ever let through by an error.
Every verdict names its rule and the digest of the rulebook it comes from.
"""
