"""The words of approvals, each a stretch of an index in the order of the inbox; triggers keep them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016_pre_words"
down_revision = "0014_pre_operators"

_ADD = """
    CREATE FUNCTION approval.add_words() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO approval.words (tenant, word, is_open, created_at, approval_id)
        SELECT DISTINCT added.tenant, word, added.state = 'pending', added.created_at, added.approval_id
        FROM added, unnest(string_to_array(trim(added.searched), ' ')) AS word;
        RETURN NULL;
    END $$
"""
_MOVE = """
    CREATE FUNCTION approval.move_words() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan TO off AS $$
    DECLARE
        gone text;
    BEGIN
        FOREACH gone IN ARRAY coalesce(string_to_array(trim(OLD.searched), ' '), '{}') LOOP
            DELETE FROM approval.words
            WHERE tenant = OLD.tenant AND word = gone AND is_open = (OLD.state = 'pending')
                AND created_at = OLD.created_at AND approval_id = OLD.approval_id;
        END LOOP;
        IF TG_OP = 'UPDATE' THEN
            INSERT INTO approval.words (tenant, word, is_open, created_at, approval_id)
            SELECT DISTINCT NEW.tenant, word, NEW.state = 'pending', NEW.created_at, NEW.approval_id
            FROM unnest(string_to_array(trim(NEW.searched), ' ')) AS word;
        END IF;
        RETURN NULL;
    END $$
"""
_TRIGGERS = (
    (
        "CREATE TRIGGER add_words AFTER INSERT ON approval.approvals REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION approval.add_words()"
    ),
    (
        "CREATE TRIGGER move_words AFTER UPDATE OF state, searched ON approval.approvals FOR EACH ROW"
        " WHEN ((OLD.state = 'pending') <> (NEW.state = 'pending') OR OLD.searched IS DISTINCT FROM NEW.searched)"
        " EXECUTE FUNCTION approval.move_words()"
    ),
    (
        "CREATE TRIGGER remove_words AFTER DELETE ON approval.approvals FOR EACH ROW"
        " EXECUTE FUNCTION approval.move_words()"
    ),
)


def upgrade() -> None:
    op.create_table(
        "words",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "word", "is_open", "created_at", "approval_id", name=op.f("pk_words")),
        schema="approval",
    )
    # NULL until the clock's duty has cut the words of what was there before, and of what older replicas still open.
    op.add_column("approvals", sa.Column("searched", sa.Text(), nullable=True), schema="approval")
    op.create_index(
        "ix_approvals_unsearched",
        "approvals",
        [sa.literal_column("created_at DESC")],
        unique=False,
        schema="approval",
        postgresql_where=sa.text("searched IS NULL"),
    )
    for statement in (_ADD, _MOVE, *_TRIGGERS):
        op.execute(statement)
    op.drop_index("ix_approvals_search", table_name="approvals", schema="approval")


def downgrade() -> None:
    op.create_index(
        "ix_approvals_search",
        "approvals",
        [sa.literal_column("to_tsvector('simple'::regconfig, summary)")],
        unique=False,
        schema="approval",
        postgresql_using="gin",
    )
    for name in ("remove_words", "move_words", "add_words"):
        op.execute(f"DROP TRIGGER {name} ON approval.approvals")
    for name in ("move_words", "add_words"):
        op.execute(f"DROP FUNCTION approval.{name}()")
    op.drop_index(
        "ix_approvals_unsearched",
        table_name="approvals",
        schema="approval",
        postgresql_where=sa.text("searched IS NULL"),
    )
    op.drop_column("approvals", "searched", schema="approval")
    op.drop_table("words", schema="approval")
