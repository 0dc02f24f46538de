"""The gateway: the only door for people, browsers and programs that speak HTTP.

Owns: API keys, conversations with their tokens, each conversation's feed (what every frontend shows, numbered), and
which mailed links were used.
Consumes: `gateway.feed` (messages, calls, approvals, results), transient deltas, and answers to its own decisions.
Emits: MessagePosted, DecideApproval (signed: who decided, and what they saw), ResolveDeadLetter, MailBounced,
FeedAdvanced.
Promises: nobody sees another tenant's rows; a client that reconnects misses nothing and sees nothing twice; what it
shows about other services' work it reads from the `read` schema and never writes.
"""
