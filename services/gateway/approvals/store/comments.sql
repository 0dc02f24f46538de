-- name: list_comments
SELECT comment_id, approval_id, person, text, question, created_at FROM gateway.comments
WHERE tenant = :tenant AND approval_id = :approval_id ORDER BY created_at, comment_id

-- name: count_comments
SELECT approval_id, count(*) AS comments FROM gateway.comments
WHERE tenant = :tenant AND approval_id = ANY(:approval_ids::text[]) GROUP BY approval_id

-- name: add_comment
-- Nothing comes back where there are as many as one approval may have, and where it is there already.
INSERT INTO gateway.comments (tenant, approval_id, comment_id, person, text, question)
SELECT :tenant::text, :approval_id::text, :comment_id::text, :person::text, :text::text, :question::bool
WHERE (SELECT count(*) FROM gateway.comments WHERE tenant = :tenant AND approval_id = :approval_id) < :most::int
ON CONFLICT (comment_id) DO NOTHING
RETURNING created_at

-- name: has_comment
SELECT FROM gateway.comments WHERE comment_id = :comment_id
