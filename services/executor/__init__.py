"""Runs exactly the calls that were permitted, each at most once, and says honestly how they ended.

Owns: the executions (one row per call that an executor took) and the tools that run them.
Consumes: ToolCallPermitted, StagedCallPermitted, ResolveCall and AbandonCall, one queue per pool; DiscardWorkspace,
whatever its pool.
Emits: ToolCallProgressed while a call runs, ToolCallFinished when it ran or may have run, ToolCallRefused when it
never will, CallResolved when people say how a call of unknown outcome ended.
Promises: nothing begins without a good permit, a permit begins one call, what was signed is what runs, and a call
whose end nobody saw is `unknown` unless its tool is safe to repeat.
Read: states, rules, handlers (a permit arrives), worker (the tool runs), sweeper (a worker died), store, tables.
"""
