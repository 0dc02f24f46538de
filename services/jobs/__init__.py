"""Jobs: tasks that are divided, tried by several agents that know nothing of each other, and decided by their votes.

Owns: jobs, their tasks, attempts and log. Consumes: RunJob and CancelJob (jobs.commands); AttemptEnded, WorkspaceMerged
and JobCommitted (jobs.attempts). Emits: AttemptRequested, AttemptWithdrawn, MergeWorkspace, DiscardWorkspace,
StagedCallsDropped, ProposeJob, ToolCallFinished and ToolCallRefused (of `accomplish`); JobEvents after each commit.
Promises: no job begins that an administrator stopped; every job ends, done, failed or cancelled, and says why; an
answer counts only when it is ahead by k votes of independent attempts; what winners left staged takes effect by one
decision of people, or not at all; no attempt is begun whose share of the budget is not there, and none is paid for
twice without a line in the log; a job survives the end of any process at any moment. It asks no model itself: each
attempt is a conversation of the agent, and each call in it passes policy like any other.
"""
