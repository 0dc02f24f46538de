"""Dead letters: keeps what could not be handled, and sends it back or gives it up when an operator says so.

Owns: dead letters. Consumes: the `dead-letters` queue (whatever a consumer or the broker buried, readable or not) and
ResolveDeadLetter. Emits: a replayed event, exactly as it was, to the queue it came from; AbandonCall, to the same
queue, for each call that waits for a discarded letter. Promises: nothing buried is ever dropped; each dead letter is
open, replayed or discarded, and says by whom; nobody is shown a redacted value in one.
"""
