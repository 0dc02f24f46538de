"""The gateway: the only door for people, browsers and programs that speak HTTP.

Owns: API keys, sessions, conversations with their tokens and who holds them, each conversation's feed (what every
frontend shows, numbered), and which mailed links were used.
Consumes: MessagePosted, OperatorSpoke, HolderChanged, ConversationEnded, StopTurn, ToolCallProposed, ApprovalOpened,
ApprovalProgressed, ApprovalClosed, ToolCallProgressed, ToolCallFinished, ToolCallRefused, CallResolved and
ConversationEvent (gateway.feed); and, each instance by itself, ConversationDelta, FeedAdvanced, and the answers to what
it sent, DecisionAnswered and RulebookTried.
Emits: MessagePosted, OperatorSpoke, HolderChanged, ConversationEnded and StopTurn; DecideApproval (signed: who decided,
and what they saw); ResolveDeadLetter, ResolveCall, RevokeGrant, RetryDelivery, RetryWebhookEvent, TryRulebook and
MailBounced; FeedAdvanced.
Promises: nobody sees another tenant's rows; a client that reconnects misses nothing and sees nothing twice; what it
shows about other services' work it reads from the `read` schema and never writes.
"""
