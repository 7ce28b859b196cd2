-- pacer.enqueue refuses what the API refuses, in the same words, and an id that comes again with other content.

-- +goose Up

-- Leaves out what says nothing: members that are null, and empty texts.
-- +goose StatementBegin
CREATE FUNCTION pacer.given(notification jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(notification) <> 'object' THEN notification ELSE
        (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(notification)
        WHERE value <> 'null' AND (value <> '""' OR key IN ('data', 'template'))) END
$$;
-- +goose StatementEnd

-- Names what a JSON value is: "a number", "an array".
-- +goose StatementBegin
CREATE FUNCTION pacer.kind(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(value) IN ('array', 'object') THEN 'an ' ELSE 'a ' END || jsonb_typeof(value)
$$;
-- +goose StatementEnd

-- Tells what is wrong with a notification in its JSON form, each fault as "field: message"; none when nothing is. It knows
-- the limits of the API, neither the policy nor the channels: what these refuse ends as failed.
-- +goose StatementBegin
CREATE FUNCTION pacer.faults(n jsonb) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    texts CONSTANT text[] := ARRAY['id', 'user_id', 'category', 'channel', 'to', 'title', 'body', 'priority', 'send_at',
        'expires_at', 'collapse_key'];
    own CONSTANT text := coalesce(n ->> 'channel', 'webhook');
    -- A channel is no field's name, and these two have no format of their own.
    formatted CONSTANT boolean := own <> ALL (texts || ARRAY['data', 'webhook', 'log', 'template', 'idempotency_key']);
    most int := CASE WHEN own IN ('webhook', 'email', 'log') THEN 262144 ELSE 4096 END;
    faults text[] := '{}';
    field text;
    size int;
    moment timestamptz;
    sent timestamptz;
BEGIN
    IF n IS NULL OR jsonb_typeof(n) <> 'object' THEN RETURN ARRAY['notification: must be a JSON object']; END IF;
    FOR field IN SELECT k FROM jsonb_object_keys(n) k WHERE k <> ALL (texts || ARRAY['data']) AND NOT (formatted AND k = own)
        ORDER BY k LIMIT 10
    LOOP
        faults := faults || (field || ': ' || CASE
            WHEN field = 'template' THEN 'only the API makes contents from templates; give title and body'
            WHEN field = 'idempotency_key' THEN 'only the API keeps keys; give an id, which makes repeats one notification'
            WHEN field IN ('fcm', 'apns', 'webpush', 'email', 'ntfy') THEN
                format('is for notifications of the channel %s, this one''s is %s', field, own)
            ELSE 'is not a field of a notification; its fields are ' || array_to_string(texts || ARRAY['data'], ', ') END);
    END LOOP;
    FOREACH field IN ARRAY texts LOOP
        IF n ? field AND jsonb_typeof(n -> field) <> 'string' THEN
            faults := faults || format('%s: must be a string, is %s', field, pacer.kind(n -> field));
        END IF;
    END LOOP;
    IF faults <> '{}' THEN RETURN faults; END IF;

    IF octet_length(n ->> 'id') > 64 THEN
        faults := faults || format('id: must have 1 to 64 characters, has %s', octet_length(n ->> 'id'));
    ELSIF n ->> 'id' IN ('.', '..') THEN
        faults := faults || format('id: must not be %s, which no URL can hold', n ->> 'id');
    ELSIF n ->> 'id' !~ '^[A-Za-z0-9._:-]+$' THEN
        faults := faults || format('id: may hold only A-Z a-z 0-9 . _ : - and is %s', n -> 'id');
    END IF;
    IF NOT n ? 'user_id' THEN faults := faults || 'user_id: is required'::text; END IF;
    FOR field, size IN VALUES ('user_id', 256), ('to', 4096), ('collapse_key', 64), ('category', 256), ('channel', 256) LOOP
        IF octet_length(n ->> field) > size THEN
            faults := faults || format('%s: may have at most %s bytes, has %s', field, size, octet_length(n ->> field));
        ELSIF n ->> field ~ '[\x01-\x1f\x7f-\u009f]' THEN
            faults := faults || format('%s: must not hold control characters', field);
        END IF;
    END LOOP;
    IF n ->> 'priority' <> ALL (ARRAY['critical', 'high', 'normal', 'low']) THEN
        faults := faults || format('priority: must be critical, high, normal or low, is %s', left((n -> 'priority')::text, 64));
    END IF;
    FOREACH field IN ARRAY ARRAY['data', CASE WHEN formatted THEN own END] LOOP
        CONTINUE WHEN field IS NULL OR NOT n ? field;
        IF jsonb_typeof(n -> field) <> 'object' THEN
            faults := faults || format('%s: must be a JSON object, such as {"order":17}, is %s', field, pacer.kind(n -> field));
        ELSIF jsonb_path_exists(n -> field, 'strict $.**{63} ? (@.type() == "object" || @.type() == "array")') THEN
            faults := faults || format('%s: may be nested at most 64 levels deep', field);
        ELSIF field <> 'data' AND octet_length((n -> field)::text) > 262144 THEN
            faults := faults || format('%s: may have at most 262144 bytes, has %s', field, octet_length((n -> field)::text));
        END IF;
    END LOOP;
    size := coalesce(octet_length(n ->> 'title'), 0) + coalesce(octet_length(n ->> 'body'), 0) + coalesce(octet_length((n -> 'data')::text), 0);
    IF size > most THEN
        faults := faults || format('body: title, body and data together may have at most %s bytes on channel %s, have %s', most, own, size);
    END IF;
    FOREACH field IN ARRAY ARRAY['send_at', 'expires_at'] LOOP
        CONTINUE WHEN NOT n ? field;
        BEGIN
            IF n ->> field !~ '^2\d{3}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-](0\d|1[0-5]):[0-5]\d)$' THEN
                RAISE datetime_field_overflow;
            END IF;
            moment := (n ->> field)::timestamptz;
        EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
            faults := faults || format('%s: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is %s', field, left((n -> field)::text, 64));
            CONTINUE;
        END;
        IF field = 'send_at' THEN
            sent := moment;
            IF sent > clock_timestamp() + interval '90 days' THEN
                faults := faults || format('send_at: may lie at most 90 days ahead, is %s', n ->> field);
            END IF;
        ELSIF moment <= clock_timestamp() THEN
            faults := faults || format('expires_at: %s has passed: it would expire before it can be sent', n ->> field);
        ELSIF moment <= sent THEN
            faults := faults || format('expires_at: must be later than send_at: it is %s, and send_at is %s', n ->> field, n ->> 'send_at');
        END IF;
    END LOOP;
    RETURN faults;
END
$$;
-- +goose StatementEnd

-- The faults in one text, NULL without any.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.fault(n jsonb) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT nullif(array_to_string(pacer.faults(pacer.given(n)), '; '), '')
$$;
-- +goose StatementEnd

-- Compares a stored JSON text with one that comes in, by their meaning. What Postgres can't compare, such as a text with
-- U+0000, differs.
-- +goose StatementBegin
CREATE FUNCTION pacer.same_json(stored json, given jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN stored::jsonb IS NOT DISTINCT FROM given;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END
$$;
-- +goose StatementEnd

-- Accepts a notification within the caller's transaction, as pacer.enqueue does, and never raises an error for what is wrong
-- with it: so the transaction can go on. faults tells what is wrong, differs which fields differ from the notification that was
-- accepted under its id; both are empty when it is accepted, now or (repeated) before.
-- +goose StatementBegin
CREATE FUNCTION pacer.try_enqueue(notification jsonb, OUT id text, OUT repeated boolean, OUT faults text[], OUT differs text[])
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

-- Compares to the microsecond: the API cuts a time there, and Postgres rounds it.
-- +goose StatementBegin
CREATE FUNCTION pacer.same_time(a timestamptz, b timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(a BETWEEN b - interval '1 microsecond' AND b + interval '1 microsecond', a IS NULL AND b IS NULL)
$$;
-- +goose StatementEnd

-- Accepts a notification, in the form that the API takes, if and only if the caller's transaction commits, and gives its
-- id. The same id twice is one notification. What is wrong with it is an error with the code 22023, an id that was accepted
-- with other content one with 23505; pacer.try_enqueue tells the same without an error.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.enqueue(notification jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result CONSTANT record := pacer.try_enqueue(notification);
BEGIN
    IF result.faults <> '{}' THEN
        RAISE EXCEPTION 'pacer.enqueue: %', array_to_string(result.faults, '; ') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF result.differs <> '{}' THEN
        RAISE EXCEPTION 'pacer.enqueue: id: "%" was accepted before with other content; what differs: %', result.id,
            array_to_string(result.differs, ', ')
            USING ERRCODE = 'unique_violation', HINT = 'Repeat it unchanged, or use another id.';
    END IF;
    RETURN result.id;
END
$$;
-- +goose StatementEnd

-- +goose Down
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.fault(n jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    own CONSTANT text := coalesce(n ->> 'channel', 'webhook');
    others CONSTANT text[] := array_remove(ARRAY['fcm', 'apns', 'webpush', 'email'], own);
    other text;
BEGIN
    IF n IS NULL OR jsonb_typeof(n) <> 'object' THEN RETURN pacer.fault_but_override(n); END IF;
    -- These are known by name only to say more than that the field is unknown.
    FOREACH other IN ARRAY others LOOP
        IF n ? other THEN RETURN other || ' is for notifications of the channel ' || other; END IF;
    END LOOP;
    -- A channel is no field's name, and these two have no format of their own.
    IF NOT n ? own OR own IN ('webhook', 'log', 'id', 'user_id', 'category', 'channel', 'to', 'title', 'body', 'data', 'priority',
        'send_at', 'expires_at', 'collapse_key') THEN
        RETURN pacer.fault_but_override(n);
    END IF;
    IF jsonb_typeof(n -> own) <> 'object' THEN RETURN own || ' must be a JSON object'; END IF;
    IF octet_length((n -> own)::text) > 262144 THEN RETURN own || ' may have at most 262144 bytes'; END IF;
    RETURN pacer.fault_but_override(n - own);
END
$$;
-- +goose StatementEnd

DROP FUNCTION pacer.try_enqueue(jsonb);
DROP FUNCTION pacer.same_time(timestamptz, timestamptz);
DROP FUNCTION pacer.same_json(json, jsonb);
DROP FUNCTION pacer.faults(jsonb);
DROP FUNCTION pacer.kind(jsonb);
DROP FUNCTION pacer.given(jsonb);
