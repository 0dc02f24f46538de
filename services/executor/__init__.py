"""Runs exactly the calls that were permitted, each at most once, and says honestly how they ended.

Owns: the executions (one row per call that an executor took), the workspaces in which staged calls wait, and the tools
that run them.
Consumes: ToolCallPermitted, StagedCallPermitted, ResolveCall and AbandonCall, one queue per pool; DiscardWorkspace
and MergeWorkspace, whatever the pool.
Emits: ToolCallProgressed while a call runs, ToolCallFinished when it ran or may have run or was staged, ToolCallRefused
when it never will, StagedCallPermitted for the staged call whose turn it is, WorkspaceMerged for the work of an attempt
at a job that has won, WorkspaceExpired where nobody decided in time, EntriesDiscarded for what stood on what
nobody wanted, CallResolved when people say how a call of unknown outcome ended.
Promises: nothing begins without a good permit, a permit begins one call, what was signed is what runs, and a call
whose end nobody saw is `unknown` unless its tool is safe to repeat; the changes of a workspace are made all or none.
Read: states, rules, plans, handlers (a permit arrives), worker (the tool runs), staging, merging, committing,
discarding, sweeper (a worker died), store, tables.
"""
