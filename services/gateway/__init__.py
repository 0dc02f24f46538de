"""The gateway: the only door for people, browsers and programs that speak HTTP.

Owns: API keys, sessions, conversations with their tokens and who holds them, and which mailed links were used. The log
of a conversation is the agent's: the gateway reads it and follows it.
Consumes: HandoverRequested (gateway.handovers); and, each instance by itself, ConversationItems, ConversationDelta,
JobEvents and the answers to what it sent, DecisionAnswered and RulebookTried.
Emits: MessagePosted, ConsentAnswered, OperatorSpoke, HolderChanged, ConversationEnded, StopTurn, ProposeChanges and
DiscardChanges; RunJob and CancelJob; DecideApproval (signed: who decided, and what they saw); ResolveDeadLetter,
ResolveCall, RevokeGrant, RetryDelivery, RetryWebhookEvent, KeyOffered, ApprovalCommented, TryRulebook and
MailBounced.
Promises: nobody sees another tenant's rows; a client that reconnects misses nothing and sees nothing twice; what it
shows about other services' work it reads from the `read` schema and never writes.
"""
