"""What others may read of the agent: of arguments only what people may see."""

from __future__ import annotations

VIEWS = {
    "log": "SELECT conversation_id, seq, tenant, type, at, data FROM agent.log",
    "conversations": """
        SELECT c.conversation_id, c.tenant, c.agent, c.language, c.labels, c.created_at, c.ended_at, c.turn_id,
               (SELECT a.data ->> 'job_id' FROM agent.attempts AS a WHERE a.conversation_id = c.conversation_id)
                   AS job_id
        FROM agent.conversations AS c
    """,
    # Whether the agent has heard of a conversation, for jobs.
    "taken_conversations": "SELECT tenant, conversation_id FROM agent.conversations",
    "messages": """
        SELECT message_id, tenant, conversation_id, turn_id, text, turn_id IS NULL AND NOT by_operator AS queued
        FROM agent.messages
    """,
    "tool_calls": """
        SELECT call_id, tenant, conversation_id, turn_id, message_id, step, position, tool,
               shown_arguments AS arguments, digest, state, result_kind, result, proposed_at, answered_at, held,
               next_message
        FROM agent.tool_calls
    """,
    # Calls that have their one answer, for those that come after them.
    "answered_calls": "SELECT call_id FROM agent.tool_calls WHERE state = 'answered'",
    # Entries that wait in workspaces, and the commit that people are asked about.
    "staged_entries": """
        SELECT s.call_id, c.tenant, s.conversation_id, s.workspace_id, s.position, s.commit_id
        FROM agent.staged_entries AS s JOIN agent.conversations AS c USING (conversation_id)
    """,
    "turns": """
        SELECT turn_id, tenant, conversation_id, state, step, started_at, ended_at, reason, final_answer,
               author ->> 'id' AS requester
        FROM agent.turns
    """,
    "steps": """
        SELECT turn_id, tenant, conversation_id, step, model, input_tokens, output_tokens, said_at
        FROM agent.steps
    """,
}
