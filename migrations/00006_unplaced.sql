-- What was accepted and has not surely reached its backlog is known from the same transaction on, whoever accepted it.

-- +goose Up

-- The ids that a statement accepted, some hundreds a row. Whoever has put them into their backlogs takes the row out; what a
-- process leaves behind, because it died or because Redis was away, the relay carries over.
CREATE TABLE pacer.unplaced (
    -- first is the smallest of the ids: a notification is accepted once, so it names the row.
    first   text COLLATE "C" PRIMARY KEY,
    ids     text[] COLLATE "C" NOT NULL,
    left_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- A row lives for some milliseconds: compressing it costs more than it saves.
ALTER TABLE pacer.unplaced ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX unplaced_left ON pacer.unplaced (left_at);

-- A trigger, and not a part of the statement that accepts, so that no way into the table passes it by: neither a process of
-- the version before nor a statement written by hand. pacer.enqueue, which leaves each in the outbox itself, says so.
-- +goose StatementBegin
CREATE FUNCTION pacer.note_unplaced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('pacer.outboxed', true) = 'yes' THEN RETURN NULL; END IF;
    INSERT INTO pacer.unplaced AS u (first, ids)
    SELECT min(id), array_agg(id) FROM (SELECT id, (row_number() OVER () - 1) / 1000 AS part FROM fresh) f GROUP BY part
    ON CONFLICT (first) DO UPDATE SET ids = u.ids || excluded.ids;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER note_unplaced AFTER INSERT ON pacer.notifications
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION pacer.note_unplaced();

-- What the version before accepted and may not have put into line: all that waits. The trigger's lock has waited for every
-- transaction that was accepting, so none is missed; what stands in line already is left as it is.
INSERT INTO pacer.outbox (id) SELECT id FROM pacer.notifications WHERE ended_at IS NULL AND status <> 'sending' ON CONFLICT DO NOTHING;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.enqueue(notification jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n CONSTANT jsonb := jsonb_strip_nulls(notification);
    fault CONSTANT text := pacer.fault(n);
    new_id CONSTANT text := coalesce(n ->> 'id', pacer.uuid7()::text);
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'pacer.enqueue: %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM set_config('pacer.outboxed', 'yes', true);
    INSERT INTO pacer.notifications
        (id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key, override)
    VALUES (new_id, n ->> 'user_id', coalesce(n ->> 'category', 'default'), coalesce(n ->> 'channel', 'webhook'),
        coalesce(n ->> 'to', ''), coalesce(n ->> 'title', ''), coalesce(n ->> 'body', ''), CASE WHEN n ? 'data' THEN (notification -> 'data')::json END,
        array_position(ARRAY['critical', 'high', 'normal', 'low'], coalesce(n ->> 'priority', 'normal')),
        (n ->> 'send_at')::timestamptz, (n ->> 'expires_at')::timestamptz, coalesce(n ->> 'collapse_key', ''),
        (notification -> coalesce(n ->> 'channel', 'webhook'))::json)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        INSERT INTO pacer.outbox (id) VALUES (new_id) ON CONFLICT DO NOTHING;
    ELSE
        -- A repeat makes sure that the first stands in line.
        INSERT INTO pacer.outbox (id) SELECT id FROM pacer.notifications
        WHERE id = new_id AND ended_at IS NULL AND status <> 'sending' ON CONFLICT DO NOTHING;
    END IF;
    PERFORM set_config('pacer.outboxed', 'no', true);
    RETURN new_id;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER note_unplaced ON pacer.notifications;
DROP FUNCTION pacer.note_unplaced();
INSERT INTO pacer.outbox (id) SELECT DISTINCT unnest(ids) FROM pacer.unplaced ON CONFLICT DO NOTHING;
DROP TABLE pacer.unplaced;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.enqueue(notification jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n CONSTANT jsonb := jsonb_strip_nulls(notification);
    fault CONSTANT text := pacer.fault(n);
    new_id CONSTANT text := coalesce(n ->> 'id', pacer.uuid7()::text);
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'pacer.enqueue: %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO pacer.notifications
        (id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key, override)
    VALUES (new_id, n ->> 'user_id', coalesce(n ->> 'category', 'default'), coalesce(n ->> 'channel', 'webhook'),
        coalesce(n ->> 'to', ''), coalesce(n ->> 'title', ''), coalesce(n ->> 'body', ''), CASE WHEN n ? 'data' THEN (notification -> 'data')::json END,
        array_position(ARRAY['critical', 'high', 'normal', 'low'], coalesce(n ->> 'priority', 'normal')),
        (n ->> 'send_at')::timestamptz, (n ->> 'expires_at')::timestamptz, coalesce(n ->> 'collapse_key', ''),
        (notification -> coalesce(n ->> 'channel', 'webhook'))::json)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        INSERT INTO pacer.outbox (id) VALUES (new_id) ON CONFLICT DO NOTHING;
    END IF;
    RETURN new_id;
END
$$;
-- +goose StatementEnd
