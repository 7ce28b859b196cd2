-- Redis remembers a mark of Postgres, and so notices when the database is another one, or an older state of this one.

-- +goose Up

-- history names the server's history by its system identifier and timeline. It is empty where the role may not ask.
-- +goose StatementBegin
CREATE FUNCTION pacer.history() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported
        OR object_not_in_prerequisite_state THEN
    RETURN '';
END
$$;
-- +goose StatementEnd

-- The latest marks. Each is written before Redis remembers it, so the history in which Redis was written has it.
CREATE TABLE pacer.marks (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mark     text COLLATE "C" NOT NULL UNIQUE, -- a name that the database keeps, a dot, and a random name
    history  text COLLATE "C" NOT NULL DEFAULT pacer.history(),
    -- The transaction after this one, and whether this one was alone: if so, nothing was written since while there is no
    -- other transaction.
    next_xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint + 1,
    alone    boolean NOT NULL DEFAULT pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id(),
    at       timestamptz NOT NULL DEFAULT now()
);
INSERT INTO pacer.marks (mark) VALUES (gen_random_uuid() || '.' || gen_random_uuid());

-- +goose Down
DROP TABLE pacer.marks;
DROP FUNCTION pacer.history();
