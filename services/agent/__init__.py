"""Agent: holds conversations with a model, and stands between what it proposes and the world.

Owns: conversations and their log, messages, turns, model steps, tool calls. Consumes: MessagePosted, OperatorSpoke,
HolderChanged, ConsentAnswered, ConversationEnded, StopTurn, ProposeChanges and DiscardChanges (agent.messages);
ToolCallFinished, ToolCallRefused, CallResolved, WorkspaceExpired, EntriesDiscarded and AbandonCall
(agent.tool-results); ApprovalOpened, ApprovalProgressed and ApprovalClosed (agent.approvals); AttemptRequested,
AttemptWithdrawn, ProposeJob and CallSurfaced (agent.attempts); ToolCallPermitted of calls that begin jobs
(agent.permits); ToolCallProgressed (agent.progress).
Emits: ToolCallProposed, CallsWithdrawn, HandoverRequested, DiscardWorkspace, StagedCallsDropped, RunJob, CancelJob,
CallSurfaced, AttemptEnded, JobCommitted; ConversationItems after each commit, and ConversationDelta while a model
writes.
Promises: one turn at a time per conversation, whichever replica gets the message; exactly one result per call, and the
model is asked exactly once more when all are there; a log without gaps whose order frontends may rely on; a transcript
that every provider accepts at any moment. It is the least trusted service: it can propose calls, never permit one.
"""
