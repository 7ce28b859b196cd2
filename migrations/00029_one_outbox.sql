-- One outbox: what Redis may not know yet.

-- +goose Up
DROP TRIGGER note_unplaced ON pacer.notifications;
DROP FUNCTION pacer.note_unplaced();
ALTER TABLE pacer.outbox RENAME TO earlier;
ALTER TABLE pacer.earlier RENAME CONSTRAINT outbox_pkey TO earlier_pkey;
DROP INDEX pacer.outbox_left, pacer.outbox_refused;

-- The transaction that accepts notifications, or ends one that waits, writes a row of ids. Whoever has told Redis
-- removes the row. What a process leaves behind, because it died or because Redis was away, any relay takes up.
CREATE TABLE pacer.outbox (
    -- key is the smallest of the ids of an accepting statement, or '~' and the id of what has ended or was returned.
    key        text COLLATE "C" PRIMARY KEY,
    ids        text[] COLLATE "C" NOT NULL,
    -- due_at is when a relay takes the row up: until then, the process that wrote it is about to tell Redis.
    due_at     timestamptz NOT NULL DEFAULT clock_timestamp() + interval '3 s',
    -- unchecked is true for what came through pacer.enqueue, as long as no process has found that the policy and its
    -- channel allow it. refused_at is when the first process found that they do not.
    unchecked  boolean NOT NULL DEFAULT false,
    refused_at timestamptz
);
-- A row lives for some milliseconds: compressing it costs more than it saves.
ALTER TABLE pacer.outbox ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX outbox_due ON pacer.outbox (due_at) WHERE NOT unchecked;
CREATE INDEX outbox_unchecked ON pacer.outbox (refused_at, key) WHERE unchecked;

INSERT INTO pacer.outbox (key, ids, due_at, unchecked, refused_at)
SELECT CASE WHEN n.ended_at IS NULL THEN '' ELSE '~' END || n.id, ARRAY[n.id], now(),
    e.unchecked AND n.ended_at IS NULL, CASE WHEN n.ended_at IS NULL THEN e.refused_at END
FROM pacer.earlier e JOIN pacer.notifications n USING (id);
INSERT INTO pacer.outbox (key, ids) SELECT first, ids FROM pacer.unplaced ON CONFLICT DO NOTHING;
DROP TABLE pacer.earlier, pacer.unplaced;

-- A trigger, so that no way into the table passes the outbox by. The setting pacer.outbox says 'unchecked' for
-- pacer.enqueue, and 'none' when the partitions are about to be rebuilt from the table.
-- +goose StatementBegin
CREATE FUNCTION pacer.note_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    way CONSTANT text := current_setting('pacer.outbox', true);
BEGIN
    IF way = 'unchecked' THEN
        INSERT INTO pacer.outbox (key, ids, unchecked) SELECT id, ARRAY[id], true FROM fresh;
    ELSIF way IS DISTINCT FROM 'none' THEN
        INSERT INTO pacer.outbox AS o (key, ids)
        SELECT min(id), array_agg(id) FROM (SELECT id, (row_number() OVER () - 1) / 1000 AS part FROM fresh) f GROUP BY part
        ON CONFLICT (key) DO UPDATE SET ids = o.ids || excluded.ids;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER note_accepted AFTER INSERT ON pacer.notifications
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION pacer.note_accepted();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.try_enqueue(notification jsonb, OUT id text, OUT repeated boolean, OUT faults text[], OUT differs text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    n CONSTANT jsonb := pacer.given(notification);
    own CONSTANT text := coalesce(n ->> 'channel', 'webhook');
    new_priority int;
    first pacer.notifications;
BEGIN
    try_enqueue.faults := pacer.faults(n);
    try_enqueue.repeated := false;
    try_enqueue.differs := '{}';
    IF try_enqueue.faults <> '{}' THEN RETURN; END IF;
    try_enqueue.id := coalesce(n ->> 'id', pacer.uuid7()::text);
    new_priority := array_position(ARRAY['critical', 'high', 'normal', 'low'], coalesce(n ->> 'priority', 'normal'));
    PERFORM set_config('pacer.outbox', 'unchecked', true);
    INSERT INTO pacer.notifications
        (id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key, override)
    VALUES (try_enqueue.id, n ->> 'user_id', coalesce(n ->> 'category', 'default'), own,
        coalesce(n ->> 'to', ''), coalesce(n ->> 'title', ''), coalesce(n ->> 'body', ''), (n -> 'data')::json,
        new_priority, (n ->> 'send_at')::timestamptz, (n ->> 'expires_at')::timestamptz, coalesce(n ->> 'collapse_key', ''),
        (n -> own)::json)
    ON CONFLICT (id) DO NOTHING;
    try_enqueue.repeated := NOT FOUND;
    PERFORM set_config('pacer.outbox', '', true);
    IF NOT try_enqueue.repeated THEN RETURN; END IF;
    SELECT * INTO first FROM pacer.notifications f WHERE f.id = try_enqueue.id;
    IF NOT FOUND THEN RETURN; END IF; -- it was purged at this moment
    try_enqueue.differs := ARRAY (SELECT field FROM (VALUES
        (1, 'user_id', first.user_id = n ->> 'user_id'),
        (2, 'category', first.category = coalesce(n ->> 'category', 'default')),
        (3, 'channel', first.channel = own),
        (4, 'to', first.target = coalesce(n ->> 'to', '')),
        (5, 'title', first.title = coalesce(n ->> 'title', '')),
        (6, 'body', first.body = coalesce(n ->> 'body', '')),
        (7, 'data', pacer.same_json(first.data, n -> 'data')),
        (8, own, first.channel <> own OR pacer.same_json(first.override, n -> own)),
        (9, 'priority', first.priority = new_priority),
        (10, 'send_at', pacer.same_time(first.send_at, (n ->> 'send_at')::timestamptz)),
        (11, 'expires_at', pacer.same_time(first.expires_at, (n ->> 'expires_at')::timestamptz)),
        (12, 'collapse_key', first.collapse_key = coalesce(n ->> 'collapse_key', ''))) AS f(place, field, same)
        WHERE NOT same ORDER BY place);
END
$$;
-- +goose StatementEnd

-- SQL checks JSON, fields, sizes and times. What a channel takes, a worker checks.
-- +goose StatementBegin
DO $do$
DECLARE
    body text := pg_get_functiondef('pacer.field_faults(jsonb)'::regprocedure);
BEGIN
    body := replace(body, $$split_part(own, ':', 1) <> ALL (texts || ARRAY['data', 'webhook', 'log', 'template',$$,
        $$own <> ALL (texts || ARRAY['data', 'template',$$);
    body := replace(body, $$    -- A channel is no field's name, and these two have no format of their own.
$$, $$    -- Content in the channel's own format stands under the channel's name. A channel is no field's name.
$$);
    body := replace(body, $$    most int := CASE WHEN split_part(own, ':', 1) IN ('webhook', 'email', 'log') THEN 262144 ELSE 4096 END;
$$, $$    most CONSTANT int := 262144;
$$);
    body := replace(body, $$            WHEN field IN ('fcm', 'apns', 'webpush', 'email', 'ntfy') THEN
                format('is for notifications of the channel %s, this one''s is %s', field, own)
$$, '');
    EXECUTE body;
END
$do$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER note_accepted ON pacer.notifications;
DROP FUNCTION pacer.note_accepted();
ALTER TABLE pacer.outbox RENAME TO later;
ALTER TABLE pacer.later RENAME CONSTRAINT outbox_pkey TO later_pkey;
CREATE TABLE pacer.outbox (
    id         text COLLATE "C" PRIMARY KEY,
    left_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    unchecked  boolean NOT NULL DEFAULT false,
    refused_at timestamptz
);
CREATE INDEX outbox_left ON pacer.outbox (left_at, id);
CREATE INDEX outbox_refused ON pacer.outbox (left_at, id) WHERE refused_at IS NOT NULL;
INSERT INTO pacer.outbox (id, unchecked, refused_at) SELECT unnest(ids), unchecked, refused_at FROM pacer.later
ON CONFLICT DO NOTHING;
DROP TABLE pacer.later;
CREATE TABLE pacer.unplaced (
    first   text COLLATE "C" PRIMARY KEY,
    ids     text[] COLLATE "C" NOT NULL,
    left_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE pacer.unplaced ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX unplaced_left ON pacer.unplaced (left_at);
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.try_enqueue(notification jsonb, OUT id text, OUT repeated boolean, OUT faults text[], OUT differs text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    n CONSTANT jsonb := pacer.given(notification);
    own CONSTANT text := coalesce(n ->> 'channel', 'webhook');
    new_priority int;
    first pacer.notifications;
BEGIN
    try_enqueue.faults := pacer.faults(n);
    try_enqueue.repeated := false;
    try_enqueue.differs := '{}';
    IF try_enqueue.faults <> '{}' THEN RETURN; END IF;
    try_enqueue.id := coalesce(n ->> 'id', pacer.uuid7()::text);
    new_priority := array_position(ARRAY['critical', 'high', 'normal', 'low'], coalesce(n ->> 'priority', 'normal'));
    PERFORM set_config('pacer.outboxed', 'yes', true);
    INSERT INTO pacer.notifications
        (id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key, override)
    VALUES (try_enqueue.id, n ->> 'user_id', coalesce(n ->> 'category', 'default'), own,
        coalesce(n ->> 'to', ''), coalesce(n ->> 'title', ''), coalesce(n ->> 'body', ''), (n -> 'data')::json,
        new_priority, (n ->> 'send_at')::timestamptz, (n ->> 'expires_at')::timestamptz, coalesce(n ->> 'collapse_key', ''),
        (n -> own)::json)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        INSERT INTO pacer.outbox (id, unchecked) VALUES (try_enqueue.id, true) ON CONFLICT DO NOTHING;
        PERFORM set_config('pacer.outboxed', 'no', true);
        RETURN;
    END IF;
    -- A repeat makes sure that the first stands in line.
    INSERT INTO pacer.outbox (id) SELECT f.id FROM pacer.notifications f
    WHERE f.id = try_enqueue.id AND f.ended_at IS NULL AND f.status <> 'sending' ON CONFLICT DO NOTHING;
    PERFORM set_config('pacer.outboxed', 'no', true);
    try_enqueue.repeated := true;
    SELECT * INTO first FROM pacer.notifications f WHERE f.id = try_enqueue.id;
    IF NOT FOUND THEN RETURN; END IF; -- it was purged at this moment
    try_enqueue.differs := ARRAY (SELECT field FROM (VALUES
        (1, 'user_id', first.user_id = n ->> 'user_id'),
        (2, 'category', first.category = coalesce(n ->> 'category', 'default')),
        (3, 'channel', first.channel = own),
        (4, 'to', first.target = coalesce(n ->> 'to', '')),
        (5, 'title', first.title = coalesce(n ->> 'title', '')),
        (6, 'body', first.body = coalesce(n ->> 'body', '')),
        (7, 'data', pacer.same_json(first.data, n -> 'data')),
        (8, own, first.channel <> own OR pacer.same_json(first.override, n -> own)),
        (9, 'priority', first.priority = new_priority),
        (10, 'send_at', pacer.same_time(first.send_at, (n ->> 'send_at')::timestamptz)),
        (11, 'expires_at', pacer.same_time(first.expires_at, (n ->> 'expires_at')::timestamptz)),
        (12, 'collapse_key', first.collapse_key = coalesce(n ->> 'collapse_key', ''))) AS f(place, field, same)
        WHERE NOT same ORDER BY place);
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $do$
DECLARE
    body text := pg_get_functiondef('pacer.field_faults(jsonb)'::regprocedure);
BEGIN
    body := replace(body, $$own <> ALL (texts || ARRAY['data', 'template',$$,
        $$split_part(own, ':', 1) <> ALL (texts || ARRAY['data', 'webhook', 'log', 'template',$$);
    body := replace(body, $$    most CONSTANT int := 262144;
$$, $$    most int := CASE WHEN split_part(own, ':', 1) IN ('webhook', 'email', 'log') THEN 262144 ELSE 4096 END;
$$);
    EXECUTE body;
END
$do$;
-- +goose StatementEnd
