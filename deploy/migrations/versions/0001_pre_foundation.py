"""The first tables: every service its schema, and the demo shop's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

SCHEMAS = ("gateway", "agent", "policy", "approval", "notifier", "executor", "audit", "shop")

revision = "0001_pre_foundation"
down_revision = None


def upgrade() -> None:
    for schema in SCHEMAS:
        op.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    op.create_table(
        "conversations",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("queued", sa.Integer(), nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("queued = 0 OR turn_id IS NOT NULL", name=op.f("ck_conversations_queued_behind_turn")),
        sa.PrimaryKeyConstraint("conversation_id", name=op.f("pk_conversations")),
        schema="agent",
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="agent",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="agent")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="agent")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="agent",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="agent")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="agent",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="agent")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="agent")
    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("schema_digest", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("shown_arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("edited", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("permit_expires_after_seconds", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("rulebook_digest", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("approval_rule", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("deciders", postgresql.ARRAY(sa.TEXT()), nullable=False),
        sa.Column("deciders_digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("arguments_revision", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decision_reason", sa.Text(), nullable=True),
        sa.Column("result_kind", sa.Text(), nullable=True),
        sa.Column("closed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("steps_done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_step_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "delegations", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("paused_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("cancel_asked_by", sa.Text(), nullable=True),
        sa.Column("cancel_asked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("correlation_id", sa.Text(), nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(state <> 'pending') = (closed_at IS NOT NULL)", name=op.f("ck_approvals_closed_iff_final")
        ),
        sa.CheckConstraint(
            "(state IN ('approved', 'denied', 'answered')) = (decided_by IS NOT NULL)",
            name=op.f("ck_approvals_decided_by_a_person"),
        ),
        sa.CheckConstraint(
            "(state IN ('pending', 'approved')) = (result_kind IS NULL)", name=op.f("ck_approvals_refused_with_kind")
        ),
        sa.CheckConstraint(
            "(state, result_kind) IN (('denied', 'denied'), ('answered', 'answered'), ('expired', 'expired'), ('withdrawn', 'cancelled'), ('withdrawn', 'superseded')) OR result_kind IS NULL",
            name=op.f("ck_approvals_kind_fits_state"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'approved', 'denied', 'answered', 'expired', 'withdrawn')",
            name=op.f("ck_approvals_state_known"),
        ),
        sa.CheckConstraint(
            "category IN ('safe_read', 'safe_search', 'safe_compute', 'unsafe_write', 'unsafe_api', 'unsafe_exec')",
            name=op.f("ck_approvals_category_known"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('approved', 'denied', 'answered') OR closed_at < expires_at",
            name=op.f("ck_approvals_decided_in_time"),
        ),
        sa.CheckConstraint(
            "(claimed_by IS NULL) = (claimed_until IS NULL)", name=op.f("ck_approvals_claimed_for_a_time")
        ),
        sa.CheckConstraint(
            "(edited IS NOT NULL) = (arguments_revision > 1)", name=op.f("ck_approvals_edited_with_original")
        ),
        sa.CheckConstraint(
            "revision >= arguments_revision AND arguments_revision >= 1", name=op.f("ck_approvals_revision_positive")
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("call_id", name=op.f("uq_approvals_call_id")),
        schema="approval",
    )
    op.create_index(
        "ix_approvals_tool",
        "approvals",
        ["tenant", "tool", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
    )
    op.create_index(
        "ix_approvals_agent",
        "approvals",
        ["tenant", "agent", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
    )
    op.create_index(
        "ix_approvals_category",
        "approvals",
        ["tenant", "category", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
    )
    op.create_index(
        "ix_approvals_deciders",
        "approvals",
        ["tenant", "deciders_digest", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_approvals_requester",
        "approvals",
        ["tenant", "requester", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
        postgresql_where=sa.text("state = 'pending' AND 'requester' = ANY (deciders)"),
    )
    op.create_index(
        "ix_approvals_search",
        "approvals",
        [sa.literal_column("to_tsvector('simple'::regconfig, summary)")],
        unique=False,
        schema="approval",
        postgresql_using="gin",
    )
    op.create_index(
        "ix_approvals_all",
        "approvals",
        ["tenant", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
    )
    op.create_index(
        "ix_approvals_conversation",
        "approvals",
        ["tenant", "conversation_id", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
    )
    op.create_index(
        "ix_approvals_due",
        "approvals",
        ["expires_at"],
        unique=False,
        schema="approval",
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_approvals_inbox",
        "approvals",
        ["tenant", "state", sa.literal_column("created_at DESC"), sa.literal_column("approval_id DESC")],
        unique=False,
        schema="approval",
    )
    op.create_index(
        "ix_approvals_steps",
        "approvals",
        ["next_step_at"],
        unique=False,
        schema="approval",
        postgresql_where=sa.text("state = 'pending' AND next_step_at IS NOT NULL"),
    )
    op.create_table(
        "calls",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("withdrawn_kind", sa.Text(), nullable=True),
        sa.Column("withdrawn_reason", sa.Text(), nullable=True),
        sa.Column("heard_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint("withdrawn_kind IN ('cancelled', 'superseded')", name=op.f("ck_calls_withdrawn_kind_known")),
        sa.CheckConstraint(
            "(withdrawn_kind IS NULL) = (withdrawn_reason IS NULL)", name=op.f("ck_calls_withdrawn_with_reason")
        ),
        sa.PrimaryKeyConstraint("tenant", "call_id", name=op.f("pk_calls")),
        schema="approval",
    )
    op.create_table(
        "decisions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("proof", sa.Text(), nullable=False),
        sa.Column("roles", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("signed", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("answer", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("arguments_revision", sa.Integer(), nullable=True),
        sa.Column("counted_revision", sa.Integer(), nullable=True),
        sa.Column("decided_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint(
            "(counted_revision IS NULL) = (arguments_revision IS NULL) AND (counted_revision IS NULL OR (outcome = 'accepted' AND verb IN ('approve', 'deny', 'abstain', 'edit')))",
            name=op.f("ck_decisions_counted_votes"),
        ),
        sa.CheckConstraint(
            "outcome IN ('accepted', 'already_decided', 'stale', 'not_allowed', 'too_weak', 'invalid', 'not_found')",
            name=op.f("ck_decisions_outcome_known"),
        ),
        sa.CheckConstraint(
            "verb IN ('approve', 'deny', 'abstain', 'edit', 'respond', 'delegate', 'claim', 'release', 'extend', 'pause', 'resume', 'cancel')",
            name=op.f("ck_decisions_verb_known"),
        ),
        sa.PrimaryKeyConstraint("tenant", "decision_id", name=op.f("pk_decisions")),
        schema="approval",
    )
    op.create_index(
        "ix_decisions_approval", "decisions", ["approval_id", "decided_at"], unique=False, schema="approval"
    )
    op.create_table(
        "edits",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("edit_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("base_revision", sa.Integer(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("before_digest", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("differences", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("signed", sa.Text(), nullable=False),
        sa.Column("answer_to", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.Column("rulebook_digest", sa.Text(), nullable=True),
        sa.Column("asked_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("judged_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("(state = 'asked') = (judged_at IS NULL)", name=op.f("ck_edits_judged_iff_over")),
        sa.CheckConstraint("state IN ('asked', 'accepted', 'refused')", name=op.f("ck_edits_state_known")),
        sa.PrimaryKeyConstraint("tenant", "edit_id", name=op.f("pk_edits")),
        schema="approval",
    )
    op.create_index("ix_edits_approval", "edits", ["approval_id", "asked_at"], unique=False, schema="approval")
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="approval",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="approval")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="approval")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="approval",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="approval")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="approval",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="approval")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="approval")
    op.create_table(
        "dead_letters",
        sa.Column("dead_letter_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("message_type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("shown_body", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("received_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("resolved_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("resolved_by", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(state <> 'open') = (resolved_at IS NOT NULL)", name=op.f("ck_dead_letters_resolved_iff_not_open")
        ),
        sa.CheckConstraint("state IN ('open', 'replayed', 'discarded')", name=op.f("ck_dead_letters_state_known")),
        sa.PrimaryKeyConstraint("dead_letter_id", name=op.f("pk_dead_letters")),
        schema="audit",
    )
    op.create_index(
        "ix_dead_letters_open",
        "dead_letters",
        ["tenant", "received_at"],
        unique=False,
        schema="audit",
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="audit",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="audit")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="audit")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="audit",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="audit")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="audit",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="audit")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="audit")
    op.create_table(
        "executions",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("schema_digest", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("idempotent", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("permit_id", sa.Text(), nullable=False),
        sa.Column("permit_issuer", sa.Text(), nullable=False),
        sa.Column("permit_expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("permit", sa.Text(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("cause", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("begun_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("finished_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(state = 'running') = (lease_until IS NOT NULL)", name=op.f("ck_executions_lease_iff_running")
        ),
        sa.CheckConstraint(
            "(state IN ('expired', 'failed', 'refused', 'succeeded', 'unknown')) = (finished_at IS NOT NULL)",
            name=op.f("ck_executions_finished_iff_final"),
        ),
        sa.CheckConstraint(
            "(state IN ('expired', 'refused')) = (begun_at IS NULL)", name=op.f("ck_executions_begun_iff_claimed")
        ),
        sa.CheckConstraint(
            "state IN ('expired', 'failed', 'refused', 'running', 'succeeded', 'unknown')",
            name=op.f("ck_executions_state_known"),
        ),
        sa.CheckConstraint(
            "(begun_at IS NULL) = (fence = 0) AND fence >= 0", name=op.f("ck_executions_fence_iff_begun")
        ),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_executions")),
        sa.UniqueConstraint("permit_id", name=op.f("uq_executions_permit_id")),
        schema="executor",
    )
    op.create_index(
        "ix_executions_leases",
        "executions",
        ["pool", "lease_until"],
        unique=False,
        schema="executor",
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="executor",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="executor")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="executor")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="executor",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="executor")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="executor",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="executor")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="executor")
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.CheckConstraint("scopes <@ ARRAY['chat', 'decide', 'admin']", name=op.f("ck_api_keys_scopes_known")),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name=op.f("ck_api_keys_revoked_by_somebody")),
        sa.CheckConstraint("cardinality(scopes) > 0", name=op.f("ck_api_keys_scopes_some")),
        sa.CheckConstraint("length(secret_hash) = 64", name=op.f("ck_api_keys_secret_hashed")),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_keys")),
        schema="gateway",
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant", "created_at"], unique=False, schema="gateway")
    op.create_table(
        "conversations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("visitor", sa.Text(), nullable=True),
        sa.Column("token_hash", sa.Text(), nullable=True),
        sa.Column("feed_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "conversation_id", name=op.f("pk_conversations")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_conversations_token_hash")),
        schema="gateway",
    )
    op.create_index(
        "ix_conversations_creator",
        "conversations",
        ["tenant", "created_by", sa.literal_column("created_at DESC")],
        unique=False,
        schema="gateway",
    )
    op.create_table(
        "feed",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "conversation_id", "seq", name=op.f("pk_feed")),
        sa.UniqueConstraint(
            "tenant", "conversation_id", "source_id", name=op.f("uq_feed_tenant_conversation_id_source_id")
        ),
        schema="gateway",
    )
    op.create_index(
        "ix_feed_approval_approval_id",
        "feed",
        ["tenant", "conversation_id", sa.literal_column("(data ->> 'approval_id')")],
        unique=False,
        schema="gateway",
        postgresql_where=sa.text("type = 'approval'"),
    )
    op.create_index(
        "ix_feed_approval_turn_id",
        "feed",
        ["tenant", "conversation_id", sa.literal_column("(data ->> 'turn_id')")],
        unique=False,
        schema="gateway",
        postgresql_where=sa.text("type = 'approval'"),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="gateway",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="gateway")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="gateway")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="gateway",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="gateway")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="gateway",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="gateway")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="gateway")
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("sent_revision", sa.Integer(), nullable=False),
        sa.Column("card", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('asleep', 'due', 'sent', 'given_up')", name=op.f("ck_deliveries_state_known")),
        sa.CheckConstraint("sent_revision <= revision", name=op.f("ck_deliveries_sent_not_ahead")),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("approval_id", "channel", name=op.f("uq_deliveries_approval_id_channel")),
        schema="notifier",
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["due_at"],
        unique=False,
        schema="notifier",
        postgresql_where=sa.text("state = 'due'"),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="notifier",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="notifier")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="notifier")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="notifier",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="notifier")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="notifier",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="notifier")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="notifier")
    op.create_table(
        "activations",
        sa.Column("activation_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("activated_by", sa.Text(), nullable=False),
        sa.Column("activated_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("diff", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("activation_id", name=op.f("pk_activations")),
        schema="policy",
    )
    op.create_index(op.f("ix_activations_digest"), "activations", ["digest"], unique=False, schema="policy")
    op.create_index(
        "ix_activations_newest", "activations", [sa.literal_column("activated_at DESC")], unique=False, schema="policy"
    )
    op.create_table(
        "counters",
        sa.Column("counter_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("per", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("touched_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint(
            "per IN ('conversation', 'requester', 'agent', 'tenant')", name=op.f("ck_counters_per_known")
        ),
        sa.PrimaryKeyConstraint("counter_id", name=op.f("pk_counters")),
        schema="policy",
    )
    op.create_table(
        "grants",
        sa.Column("grant_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("schema_digest", sa.Text(), nullable=False),
        sa.Column("tool_digest", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("shown_arguments", sa.Text(), nullable=False),
        sa.Column("bounds", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("rulebook_digest", sa.Text(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("given_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.CheckConstraint("scope IN ('conversation', 'agent', 'tenant')", name=op.f("ck_grants_scope_known")),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name=op.f("ck_grants_revoked_by_somebody")),
        sa.CheckConstraint("expires_at > given_at", name=op.f("ck_grants_expires_later")),
        sa.CheckConstraint("uses_left BETWEEN 0 AND uses", name=op.f("ck_grants_uses_left_in_range")),
        sa.PrimaryKeyConstraint("grant_id", name=op.f("pk_grants")),
        sa.UniqueConstraint("approval_id", name=op.f("uq_grants_approval_id")),
        schema="policy",
    )
    op.create_index(
        "ix_grants_newest",
        "grants",
        ["tenant", sa.literal_column("given_at DESC"), sa.literal_column("grant_id DESC")],
        unique=False,
        schema="policy",
    )
    op.create_index(
        "ix_grants_usable",
        "grants",
        ["tenant", "tool", "scope", "subject"],
        unique=False,
        schema="policy",
        postgresql_where=sa.text("uses_left > 0 AND revoked_at IS NULL"),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        schema="policy",
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )
    op.create_index(op.f("ix_history_call_id"), "history", ["call_id"], unique=False, schema="policy")
    op.create_index(op.f("ix_history_subject_id"), "history", ["subject_id"], unique=False, schema="policy")
    op.create_table(
        "inbox",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handled_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "queue", name=op.f("pk_inbox")),
        schema="policy",
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )
    op.create_index(op.f("ix_inbox_handled_at"), "inbox", ["handled_at"], unique=False, schema="policy")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.SmallInteger(), nullable=False),
        sa.Column("mandatory", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "due_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now() + interval '5 seconds'"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        schema="policy",
        comment="Events to send; a row goes when the broker has confirmed it, and the relay takes it when it is due.",
    )
    op.create_index(op.f("ix_outbox_created_at"), "outbox", ["created_at"], unique=False, schema="policy")
    op.create_index(op.f("ix_outbox_due_at"), "outbox", ["due_at"], unique=False, schema="policy")
    op.create_table(
        "verdicts",
        sa.Column("verdict_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("schema_digest", sa.Text(), nullable=False),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("model_reason", sa.Text(), nullable=False),
        sa.Column("rulebook_digest", sa.Text(), nullable=False),
        sa.Column("judged_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("facts", sa.Text(), nullable=True),
        sa.Column("approval", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "effect IN ('allow', 'require_approval', 'stage', 'deny')", name=op.f("ck_verdicts_effect_known")
        ),
        sa.PrimaryKeyConstraint("verdict_id", name=op.f("pk_verdicts")),
        sa.UniqueConstraint("call_id", name=op.f("uq_verdicts_call_id")),
        schema="policy",
    )
    op.create_index(
        "ix_verdicts_conversation",
        "verdicts",
        ["tenant", "conversation_id", "tool", "judged_at"],
        unique=False,
        schema="policy",
    )
    op.create_index(
        "ix_verdicts_newest",
        "verdicts",
        ["tenant", sa.literal_column("judged_at DESC"), sa.literal_column("verdict_id DESC")],
        unique=False,
        schema="policy",
    )
    op.create_index(
        "ix_verdicts_requester", "verdicts", ["tenant", "requester", "tool", "judged_at"], unique=False, schema="policy"
    )
    op.create_table(
        "watched_calls",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments_digest", sa.Text(), nullable=False),
        sa.Column("veto_on", sa.Text(), nullable=False),
        sa.Column("window_seconds", sa.Integer(), nullable=False),
        sa.Column("approval", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("denied_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("denied_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("(denied_at IS NULL) = (until IS NULL)", name=op.f("ck_watched_calls_denied_until")),
        sa.CheckConstraint("veto_on IN ('arguments', 'tool')", name=op.f("ck_watched_calls_veto_on_known")),
        sa.CheckConstraint("window_seconds > 0", name=op.f("ck_watched_calls_window_not_empty")),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_watched_calls")),
        schema="policy",
    )
    op.create_index(
        "ix_watched_calls_same", "watched_calls", ["tenant", "conversation_id", "tool"], unique=False, schema="policy"
    )
    op.create_table(
        "carts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("currency ~ '^[A-Z]{3}$'", name=op.f("ck_carts_currency_code")),
        sa.PrimaryKeyConstraint("tenant", "conversation_id", name=op.f("pk_carts")),
        schema="shop",
    )
    op.create_table(
        "escalations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(closed_at IS NOT NULL) = (state = 'closed')", name=op.f("ck_escalations_closed_at")),
        sa.CheckConstraint("state IN ('open', 'closed')", name=op.f("ck_escalations_state")),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_escalations")),
        sa.UniqueConstraint("tenant", "idempotency_key", name="escalations_once_per_call"),
        schema="shop",
    )
    op.create_index(
        "escalations_one_open",
        "escalations",
        ["tenant", "conversation_id"],
        unique=True,
        schema="shop",
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "leads",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("phone", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("num_nonnulls(name, email, phone, note) > 0", name=op.f("ck_leads_say_something")),
        sa.PrimaryKeyConstraint("tenant", "requester", name=op.f("pk_leads")),
        sa.UniqueConstraint("id", name="leads_id"),
        schema="shop",
    )
    op.create_table(
        "pay_links",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("amount", sa.Numeric(precision=12, scale=2), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("asked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("link_id", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("currency ~ '^[A-Z]{3}$'", name=op.f("ck_pay_links_currency_code")),
        sa.CheckConstraint("amount > 0", name=op.f("ck_pay_links_amount_positive")),
        sa.CheckConstraint(
            "num_nonnulls(link_id, url, recorded_at) IN (0, 3)", name=op.f("ck_pay_links_recorded_whole")
        ),
        sa.PrimaryKeyConstraint("tenant", "idempotency_key", name=op.f("pk_pay_links")),
        sa.UniqueConstraint("tenant", "link_id", name="pay_links_recorded_once"),
        schema="shop",
    )
    op.create_index(
        "pay_links_by_conversation", "pay_links", ["tenant", "conversation_id"], unique=False, schema="shop"
    )
    op.create_table(
        "products",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("colour", sa.Text(), nullable=False),
        sa.Column("price", sa.Numeric(precision=12, scale=2), nullable=False),
        sa.Column("list_price", sa.Numeric(precision=12, scale=2), nullable=True),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("on_sale", sa.Boolean(), nullable=False),
        sa.Column("stock", sa.Integer(), nullable=False),
        sa.Column(
            "name_words",
            sa.Text(),
            sa.Computed(
                "' ' || regexp_replace(lower(translate(name, 'İIıŞşĞğÜüÖöÇçÂâÎîÛûÁáÀàÄäÉéÈèÊêËëÍíÓóÔôÚúÑñ', 'iiissgguuooccaaiiuuaaaaaaeeeeeeeeiioooouunn')), '[[:space:][:punct:]]+', ' ', 'g')",
                persisted=True,
            ),
            nullable=False,
        ),
        sa.Column(
            "category_words",
            sa.Text(),
            sa.Computed(
                "' ' || regexp_replace(lower(translate(category, 'İIıŞşĞğÜüÖöÇçÂâÎîÛûÁáÀàÄäÉéÈèÊêËëÍíÓóÔôÚúÑñ', 'iiissgguuooccaaiiuuaaaaaaeeeeeeeeiioooouunn')), '[[:space:][:punct:]]+', ' ', 'g')",
                persisted=True,
            ),
            nullable=False,
        ),
        sa.Column(
            "search_words",
            sa.Text(),
            sa.Computed(
                "' ' || regexp_replace(lower(translate(name || ' ' || description || ' ' || category || ' ' || colour, 'İIıŞşĞğÜüÖöÇçÂâÎîÛûÁáÀàÄäÉéÈèÊêËëÍíÓóÔôÚúÑñ', 'iiissgguuooccaaiiuuaaaaaaeeeeeeeeiioooouunn')), '[[:space:][:punct:]]+', ' ', 'g')",
                persisted=True,
            ),
            nullable=False,
        ),
        sa.CheckConstraint("currency ~ '^[A-Z]{3}$'", name=op.f("ck_products_currency_code")),
        sa.CheckConstraint("id <> '' AND name <> ''", name=op.f("ck_products_named")),
        sa.CheckConstraint("list_price IS NULL OR list_price > price", name=op.f("ck_products_list_price_higher")),
        sa.CheckConstraint("on_sale OR list_price IS NULL", name=op.f("ck_products_list_price_only_on_sale")),
        sa.CheckConstraint("price > 0", name=op.f("ck_products_price_positive")),
        sa.CheckConstraint("stock >= 0", name=op.f("ck_products_stock_not_negative")),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_products")),
        schema="shop",
    )
    op.create_table(
        "messages",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("author", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("cause", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column(
            "posted_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["agent.conversations.conversation_id"], name=op.f("fk_messages_conversation_id")
        ),
        sa.PrimaryKeyConstraint("conversation_id", "message_id", name=op.f("pk_messages")),
        schema="agent",
    )
    op.create_index("ix_messages_order", "messages", ["conversation_id", "number"], unique=False, schema="agent")
    op.create_index(
        "ix_messages_queued",
        "messages",
        ["conversation_id"],
        unique=False,
        schema="agent",
        postgresql_where=sa.text("turn_id IS NULL"),
    )
    op.create_table(
        "turns",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("takeovers", sa.Integer(), nullable=False),
        sa.Column("open_calls", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("cause", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("author", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("final_answer", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column(
            "started_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('failed', 'finished'))", name=op.f("ck_turns_ended_iff_final")
        ),
        sa.CheckConstraint(
            "(lease_until IS NOT NULL) = (state = 'thinking')", name=op.f("ck_turns_leased_iff_thinking")
        ),
        sa.CheckConstraint("(open_calls > 0) = (state = 'waiting')", name=op.f("ck_turns_waiting_iff_open_calls")),
        sa.CheckConstraint("state IN ('thinking', 'waiting', 'finished', 'failed')", name=op.f("ck_turns_state_known")),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["agent.conversations.conversation_id"], name=op.f("fk_turns_conversation_id")
        ),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_turns")),
        schema="agent",
    )
    op.create_index("ix_turns_conversation", "turns", ["conversation_id"], unique=False, schema="agent")
    op.create_index(
        "ix_turns_leases",
        "turns",
        ["lease_until"],
        unique=False,
        schema="agent",
        postgresql_where=sa.text("state = 'thinking'"),
    )
    op.create_index(
        "ux_turns_live",
        "turns",
        ["conversation_id"],
        unique=True,
        schema="agent",
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "grant_uses",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("grant_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("used_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("returned_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["grant_id"], ["policy.grants.grant_id"], name=op.f("fk_grant_uses_grant_id")),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_grant_uses")),
        schema="policy",
    )
    op.create_index("ix_grant_uses_grant", "grant_uses", ["grant_id"], unique=False, schema="policy")
    op.create_table(
        "reservations",
        sa.Column("counter_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("reserved_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("released_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("released_as", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(released_at IS NULL) = (released_as IS NULL)", name=op.f("ck_reservations_released_with_kind")
        ),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_reservations_amount_not_negative")),
        sa.ForeignKeyConstraint(
            ["counter_id"], ["policy.counters.counter_id"], name=op.f("fk_reservations_counter_id")
        ),
        sa.PrimaryKeyConstraint("counter_id", "call_id", name=op.f("pk_reservations")),
        schema="policy",
    )
    op.create_index("ix_reservations_call", "reservations", ["call_id"], unique=False, schema="policy")
    op.create_index(
        "ix_reservations_window",
        "reservations",
        ["counter_id", "reserved_at"],
        unique=False,
        schema="policy",
        postgresql_include=["amount"],
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.create_table(
        "cart_additions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("product_id", sa.Text(), nullable=False),
        sa.Column("variant_id", sa.Text(), nullable=True),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "conversation_id"],
            ["shop.carts.tenant", "shop.carts.conversation_id"],
            name=op.f("fk_cart_additions_tenant_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "idempotency_key", name=op.f("pk_cart_additions")),
        schema="shop",
    )
    op.create_table(
        "lead_history",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("phone", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("said_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "requester"],
            ["shop.leads.tenant", "shop.leads.requester"],
            name=op.f("fk_lead_history_tenant_requester"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("tenant", "idempotency_key", name=op.f("pk_lead_history")),
        schema="shop",
    )
    op.create_index("lead_history_by_requester", "lead_history", ["tenant", "requester"], unique=False, schema="shop")
    op.create_table(
        "variants",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("product_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("stock", sa.Integer(), nullable=False),
        sa.CheckConstraint("id <> '' AND label <> ''", name=op.f("ck_variants_named")),
        sa.CheckConstraint("stock >= 0", name=op.f("ck_variants_stock_not_negative")),
        sa.ForeignKeyConstraint(
            ["tenant", "product_id"],
            ["shop.products.tenant", "shop.products.id"],
            name=op.f("fk_variants_tenant_product_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_variants")),
        sa.UniqueConstraint("tenant", "product_id", "id", name="variants_of_product"),
        schema="shop",
    )
    op.create_table(
        "steps",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("raw", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("said_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["agent.turns.turn_id"], name=op.f("fk_steps_turn_id")),
        sa.PrimaryKeyConstraint("turn_id", "step", name=op.f("pk_steps")),
        schema="agent",
    )
    op.create_index("ix_steps_conversation", "steps", ["conversation_id"], unique=False, schema="agent")
    op.create_table(
        "tool_calls",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("provider_call_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("shown_arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("result_kind", sa.Text(), nullable=True),
        sa.Column("result", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column(
            "proposed_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("answered_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(answered_at IS NOT NULL) = (state = 'answered')", name=op.f("ck_tool_calls_answered_at_iff_answered")
        ),
        sa.CheckConstraint(
            "(result_kind IS NOT NULL) = (state = 'answered')", name=op.f("ck_tool_calls_result_iff_answered")
        ),
        sa.CheckConstraint(
            "digest IS NOT NULL OR result_kind IS NOT DISTINCT FROM 'invalid'",
            name=op.f("ck_tool_calls_digest_unless_invalid"),
        ),
        sa.CheckConstraint(
            "result_kind IN ('succeeded', 'failed', 'refused', 'denied', 'answered', 'expired', 'cancelled', 'superseded', 'invalid', 'staged', 'unknown')",
            name=op.f("ck_tool_calls_result_kind_known"),
        ),
        sa.CheckConstraint("state IN ('open', 'answered')", name=op.f("ck_tool_calls_state_known")),
        sa.ForeignKeyConstraint(["turn_id"], ["agent.turns.turn_id"], name=op.f("fk_tool_calls_turn_id")),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_tool_calls")),
        sa.UniqueConstraint("turn_id", "step", "position", name=op.f("uq_tool_calls_turn_id_step_position")),
        schema="agent",
    )
    op.create_index("ix_tool_calls_conversation", "tool_calls", ["conversation_id"], unique=False, schema="agent")
    op.create_table(
        "cart_items",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("product_id", sa.Text(), nullable=False),
        sa.Column("variant_id", sa.Text(), nullable=True),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("unit_price", sa.Numeric(precision=12, scale=2), nullable=False),
        sa.CheckConstraint("quantity BETWEEN 1 AND 99", name=op.f("ck_cart_items_quantity")),
        sa.CheckConstraint("unit_price > 0", name=op.f("ck_cart_items_price_positive")),
        sa.ForeignKeyConstraint(
            ["tenant", "conversation_id"],
            ["shop.carts.tenant", "shop.carts.conversation_id"],
            name=op.f("fk_cart_items_tenant_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "product_id", "variant_id"],
            ["shop.variants.tenant", "shop.variants.product_id", "shop.variants.id"],
            name=op.f("fk_cart_items_tenant_product_id_variant_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "product_id"],
            ["shop.products.tenant", "shop.products.id"],
            name=op.f("fk_cart_items_tenant_product_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cart_items")),
        sa.UniqueConstraint(
            "tenant",
            "conversation_id",
            "product_id",
            "variant_id",
            name="cart_items_one_line_each",
            postgresql_nulls_not_distinct=True,
        ),
        schema="shop",
    )


def downgrade() -> None:
    for schema in SCHEMAS:
        op.execute(f"DROP SCHEMA {schema} CASCADE")
