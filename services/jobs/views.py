"""What others may read of jobs."""

from __future__ import annotations

VIEWS = {
    "jobs": """
        SELECT job_id, tenant, agent, author, state, spec, tasks, decided, active, attempts, running, flagged, agreed,
               "cast", tokens, cost, unpriced, reason, result, entries, changes, log_seq, created_at, ended_at
        FROM jobs.jobs
    """,
    "job_tasks": """
        SELECT t.job_id, j.tenant, t.number, t.task_id, t.text, t.state, t.needs, t.produces, t.group_number, t.k,
               t.votes, t.drawn, t.drawn_before, t.running, t.answer, t.reason
        FROM jobs.tasks t JOIN jobs.jobs j USING (job_id)
    """,
    "job_attempts": """
        SELECT a.attempt_id, a.job_id, j.tenant, a.number, a.attempt, a.conversation_id, a.state, a.vote_key, a.answer,
               a.tree_digest, a.flags, a.reason, a.input_tokens, a.output_tokens, a.cost, a.calls, a.asked_again,
               a.begun_at, a.ended_at
        FROM jobs.attempts a JOIN jobs.jobs j USING (job_id)
    """,
    "job_log": "SELECT job_id, seq, tenant, type, at, data FROM jobs.log",
}
