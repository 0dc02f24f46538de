-- name: list_views
SELECT name, address FROM gateway.saved_views WHERE tenant = :tenant AND person = :person ORDER BY name

-- name: save_view
-- A name that is taken keeps its address; a new one only where there is room.
INSERT INTO gateway.saved_views (tenant, person, name, address)
SELECT :tenant::text, :person::text, :name::text, :address::text
WHERE EXISTS (SELECT FROM gateway.saved_views WHERE tenant = :tenant AND person = :person AND name = :name)
    OR (SELECT count(*) FROM gateway.saved_views WHERE tenant = :tenant AND person = :person) < :most::int
ON CONFLICT (tenant, person, name) DO UPDATE SET address = saved_views.address
RETURNING address

-- name: remove_view
DELETE FROM gateway.saved_views WHERE tenant = :tenant AND person = :person AND name = :name
