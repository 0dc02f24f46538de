"""What others may read of the agent: of arguments only what people may see.

Of a turn they see too what waits behind it: `spoken` says that what comes next is its requester's, words or the late
outcome of a call; `written` that words of theirs wait, wherever they stand.
"""

from __future__ import annotations

VIEWS = {
    "messages": """
        SELECT message_id, tenant, conversation_id, turn_id, turn_id IS NULL AND NOT by_operator AS queued
        FROM agent.messages
    """,
    "tool_calls": """
        SELECT call_id, tenant, conversation_id, turn_id, message_id, step, position, tool,
               shown_arguments AS arguments, digest, state, result_kind, result, proposed_at, answered_at, held,
               next_message
        FROM agent.tool_calls
    """,
    "turns": """
        SELECT turn_id, tenant, conversation_id, state, step, started_at, ended_at, reason, final_answer,
               author = (
                   SELECT author FROM agent.messages
                   WHERE conversation_id = turns.conversation_id AND turn_id IS NULL AND NOT by_operator
                   ORDER BY number LIMIT 1
               ) AS spoken,
               EXISTS (
                   SELECT FROM agent.messages
                   WHERE conversation_id = turns.conversation_id AND author = turns.author AND turn_id IS NULL
                       AND call_id IS NULL AND NOT by_operator
               ) AS written
        FROM agent.turns
    """,
    "steps": """
        SELECT turn_id, tenant, conversation_id, step, model, input_tokens, output_tokens, said_at
        FROM agent.steps
    """,
}
