-- Roles and rights: the database itself keeps services strangers to each other.
--
-- Run it as an administrator before the first migration (it makes placet_owner, who migrates) and after every one (it
-- grants rights on what is new). It takes every right away and grants what stands here, in one transaction, so running
-- it again does no harm and a right granted by hand does not outlive it. No password stands here: set them with
-- ALTER ROLE, or let `python -m placet.deploy.postgres.prepare` run this file, the migrations and this file again.
-- Roles are the whole server's: for a second installation on it, set placet.role_prefix before (by default `placet_`).
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('placet_roles'));

DO $$
DECLARE
    services CONSTANT text[] := ARRAY['gateway', 'agent', 'policy', 'approval', 'notifier', 'executor', 'jobs', 'dead_letters'];
    -- The schema of a service has its name; in `tools` the tools of the executor make their own, `read` is nobody's.
    schemas CONSTANT text[] := services || ARRAY['tools', 'read'];
    prefix CONSTANT text := coalesce(nullif(current_setting('placet.role_prefix', true), ''), 'placet_');
    owner CONSTANT text := prefix || 'owner';
    role text;
    service text;
    found text;
    relation regclass;
BEGIN
    FOREACH role IN ARRAY ARRAY[owner] || ARRAY(SELECT prefix || each FROM unnest(services) AS each) LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I', role);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', role);
    END LOOP;

    EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), owner);
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA public TO %I', owner);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC', owner);

    -- Everything belongs to the owner, whoever made it. A service never owns its tables: it cannot alter or drop them,
    -- nor give itself back what is taken away below.
    FOR found IN SELECT nspname FROM pg_namespace WHERE nspname = ANY (schemas) LOOP
        EXECUTE format('ALTER SCHEMA %I OWNER TO %I', found, owner);
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM PUBLIC', found);
        FOR relation IN
            SELECT oid FROM pg_class
            WHERE relnamespace = found::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
              AND relowner <> owner::regrole AND found <> 'tools'
        LOOP
            EXECUTE format('ALTER TABLE %s OWNER TO %I', relation, owner);
        END LOOP;
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM PUBLIC', found);
    END LOOP;

    FOREACH service IN ARRAY services LOOP
        role := prefix || service;
        EXECUTE format('REVOKE ALL ON DATABASE %I FROM %I', current_database(), role);
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
        EXECUTE format('REVOKE ALL ON SCHEMA public FROM %I', role);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA public FROM %I', role);
        FOR found IN SELECT nspname FROM pg_namespace WHERE nspname = ANY (schemas) LOOP
            EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', found, role);
            EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', found, role);
            EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %I FROM %I', found, role);
            IF found = 'tools' AND service = 'executor' THEN
                -- What tools make there is their own, the executor's.
                EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', found, role);
                EXECUTE format('GRANT ALL ON ALL TABLES IN SCHEMA %I TO %I', found, role);
                EXECUTE format('GRANT ALL ON ALL SEQUENCES IN SCHEMA %I TO %I', found, role);
            ELSIF found = service THEN
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found, role);
                EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO %I', found, role);
                EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %I TO %I', found, role);
            ELSIF found = 'read' AND service = 'gateway' THEN
                -- Views run with their owner's rights: the gateway sees through them, and nothing beside them.
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found, role);
                EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO %I', found, role);
                -- A migration makes changed views anew: they are readable at once, not only when this ran again.
                EXECUTE format(
                    'ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT SELECT ON TABLES TO %I', owner, found, role);
            ELSIF found = 'read' AND service = 'notifier' THEN
                -- What is staged, for the cards of commits, what is stopped, who may have asked for a call, with the
                -- jobs that it may come from, and nothing else.
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found, role);
                IF to_regclass('"read".askers') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".askers, "read".key_makers TO %I', role);
                END IF;
                IF to_regclass('"read".job_attempts') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".conversations, "read".jobs, "read".job_attempts TO %I', role);
                END IF;
                IF to_regclass('"read".workspaces') IS NOT NULL THEN
                    EXECUTE format(
                        'GRANT SELECT ON "read".workspaces, "read".workspace_entries, "read".workspace_changes TO %I',
                        role);
                END IF;
                IF to_regclass('"read".stops') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".stops TO %I', role);
                END IF;
            ELSIF found = 'read' AND service = 'jobs' AND to_regclass('"read".card_times') IS NOT NULL THEN
                -- Whether an agent has taken an attempt, whether people are asked in it, and nothing of what; what is stopped.
                EXECUTE format('GRANT SELECT ON "read".card_times, "read".taken_conversations TO %I', role);
                IF to_regclass('"read".stops') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".stops TO %I', role);
                END IF;
            ELSIF found = 'read' AND service IN ('approval', 'policy', 'executor', 'agent') THEN
                -- Whether the key works that a vote, a grant or a yes was given with; approval also, by which rules
                -- calls are judged now; policy, who may have asked for a call; who begins calls, what is stopped; and
                -- executors, which calls will not be staged, which were approved and which have their answer; and nothing else.
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found, role);
                IF to_regclass('"read".api_keys') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".api_keys TO %I', role);
                END IF;
                IF service IN ('executor', 'agent') AND to_regclass('"read".stops') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".stops TO %I', role);
                END IF;
                IF service = 'executor' AND to_regclass('"read".verdicts') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".verdicts TO %I', role);
                END IF;
                IF service = 'executor' AND to_regclass('"read".answered_calls') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".answered_calls TO %I', role);
                END IF;
                IF service = 'executor' AND to_regclass('"read".approved_calls') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".approved_calls TO %I', role);
                END IF;
                IF service = 'policy' AND to_regclass('"read".askers') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".askers, "read".key_makers TO %I', role);
                END IF;
                IF service = 'approval' AND to_regclass('"read".active_rulebook') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".active_rulebook TO %I', role);
                END IF;
            END IF;
            IF found = 'read' AND service <> 'gateway' THEN
                -- Whether all was restored from a backup, and when.
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found, role);
                IF to_regclass('"read".restores') IS NOT NULL THEN
                    EXECUTE format('GRANT SELECT ON "read".restores TO %I', role);
                END IF;
            END IF;
        END LOOP;
        -- History is only ever added to.
        relation := to_regclass(format('%I.history', service));
        IF relation IS NOT NULL THEN
            EXECUTE format('REVOKE UPDATE, DELETE ON %s FROM %I', relation, role);
        END IF;
    END LOOP;
    -- So is what seals it, and when that was says the database.
    IF to_regclass('gateway.checkpoints') IS NOT NULL THEN
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON gateway.checkpoints FROM %I', prefix || 'gateway');
        EXECUTE format('GRANT INSERT (tenant, number, token) ON gateway.checkpoints TO %I', prefix || 'gateway');
    END IF;
END
$$;
COMMIT;
