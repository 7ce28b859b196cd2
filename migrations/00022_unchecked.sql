-- The outbox says which notifications no process has checked against the policy and the channels, and since when one
-- has refused them.

-- +goose Up

-- unchecked is true for what came through pacer.enqueue. What another way in has accepted is true to its word, whatever
-- a worker knows of it. Of what stands in the outbox now nobody can tell which it is, and it was accepted in any case.
-- A process of the version before checks all of it, and leaves unchecked as it is.
ALTER TABLE pacer.outbox ADD COLUMN unchecked boolean NOT NULL DEFAULT false, ADD COLUMN refused_at timestamptz;

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

-- +goose Down
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
        INSERT INTO pacer.outbox (id) VALUES (try_enqueue.id) ON CONFLICT DO NOTHING;
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

ALTER TABLE pacer.outbox DROP COLUMN refused_at, DROP COLUMN unchecked;
