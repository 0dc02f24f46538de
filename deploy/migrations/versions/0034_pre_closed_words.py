"""The words of approvals that close together move in one statement; a changed card's still go one by one."""

from __future__ import annotations

from alembic import op

revision = "0034_pre_closed_words"
down_revision = "0033_pre_grant_keys"

_CLOSE = """
    CREATE FUNCTION approval.close_words() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan TO off AS $$
    BEGIN
        UPDATE approval.words SET is_open = false WHERE ctid = ANY (ARRAY(
            SELECT found.ctid
            FROM changed, unnest(string_to_array(trim(changed.searched), ' ')) AS gone (word), LATERAL (
                SELECT words.ctid FROM approval.words
                WHERE words.tenant = changed.tenant AND words.word = gone.word AND words.is_open
                    AND words.created_at = changed.created_at AND words.approval_id = changed.approval_id
                LIMIT 1
            ) AS found
            WHERE changed.state <> 'pending'
        ));
        RETURN NULL;
    END $$
"""
_CLOSE_TRIGGER = (
    "CREATE TRIGGER close_words AFTER UPDATE ON approval.approvals REFERENCING NEW TABLE AS changed"
    " FOR EACH STATEMENT EXECUTE FUNCTION approval.close_words()"
)
_MOVE_CHANGED = (
    "CREATE TRIGGER move_words AFTER UPDATE OF searched ON approval.approvals FOR EACH ROW"
    " WHEN (OLD.searched IS DISTINCT FROM NEW.searched) EXECUTE FUNCTION approval.move_words()"
)
_MOVE_ALL = (
    "CREATE TRIGGER move_words AFTER UPDATE OF state, searched ON approval.approvals FOR EACH ROW"
    " WHEN ((OLD.state = 'pending') <> (NEW.state = 'pending') OR OLD.searched IS DISTINCT FROM NEW.searched)"
    " EXECUTE FUNCTION approval.move_words()"
)


def upgrade() -> None:
    # First what takes the strongest lock: whoever locked a row to change it would wait for us, and we for them.
    op.execute("DROP TRIGGER move_words ON approval.approvals")
    op.execute(_CLOSE)
    op.execute(_CLOSE_TRIGGER)
    op.execute(_MOVE_CHANGED)


def downgrade() -> None:
    op.execute("DROP TRIGGER move_words ON approval.approvals")
    op.execute(_MOVE_ALL)
    op.execute("DROP TRIGGER close_words ON approval.approvals")
    op.execute("DROP FUNCTION approval.close_words()")
