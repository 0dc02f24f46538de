"""Audit: keeps what could not be handled, and sends it back or gives it up when an operator says so.

Owns: dead letters. Consumes: the `dead-letters` queue (whatever a consumer or the broker buried, readable or not) and
ResolveDeadLetter. Emits: a replayed event, exactly as it was, to the queue it came from. Promises: nothing buried is
ever dropped; each dead letter is open, replayed or discarded, and says by whom.
"""
