-- pacer.enqueue accepts a notification within the caller's own transaction.

-- +goose Up

-- A UUID of version 7, whose first 48 bits are the time in ms: ids that were made one after the other sort so.
-- +goose StatementBegin
CREATE FUNCTION pacer.uuid7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
        'hex')::uuid
$$;
-- +goose StatementEnd

-- Tells what is wrong with a notification in its JSON form, NULL when nothing is. It knows the limits of the API, not the
-- policy: what that refuses ends as failed once a worker has looked at it.
-- +goose StatementBegin
CREATE FUNCTION pacer.fault(n jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    unknown text;
    field text;
    size int;
BEGIN
    IF n IS NULL OR jsonb_typeof(n) <> 'object' THEN RETURN 'it must be a JSON object'; END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(n) k WHERE k <> ALL (ARRAY['id', 'user_id', 'category', 'channel', 'to', 'title',
        'body', 'data', 'priority', 'send_at', 'expires_at', 'collapse_key']) LIMIT 1;
    IF FOUND THEN RETURN unknown || ' is not a known field'; END IF;
    FOREACH field IN ARRAY ARRAY['id', 'user_id', 'category', 'channel', 'to', 'title', 'body', 'priority', 'send_at', 'expires_at', 'collapse_key'] LOOP
        IF n ? field AND jsonb_typeof(n -> field) <> 'string' THEN RETURN field || ' must be a string'; END IF;
    END LOOP;
    IF n ? 'id' AND (n ->> 'id' !~ '^[A-Za-z0-9._:-]{1,64}$' OR n ->> 'id' IN ('.', '..')) THEN
        RETURN 'id must be 1 to 64 of A-Z a-z 0-9 . _ : - and not . or ..';
    END IF;
    IF coalesce(n ->> 'user_id', '') = '' THEN RETURN 'user_id is required'; END IF;
    IF octet_length(n ->> 'user_id') > 256 THEN RETURN 'user_id may have at most 256 bytes'; END IF;
    IF octet_length(n ->> 'to') > 4096 THEN RETURN 'to may have at most 4096 bytes'; END IF;
    IF octet_length(n ->> 'collapse_key') > 64 THEN RETURN 'collapse_key may have at most 64 bytes'; END IF;
    FOREACH field IN ARRAY ARRAY['user_id', 'to', 'collapse_key', 'category', 'channel'] LOOP
        IF n ->> field ~ '[\x01-\x1f\x7f-\u009f]' THEN RETURN field || ' must not hold control characters'; END IF;
    END LOOP;
    IF n ? 'data' AND jsonb_typeof(n -> 'data') <> 'object' THEN RETURN 'data must be a JSON object'; END IF;
    IF n ? 'priority' AND n ->> 'priority' <> ALL (ARRAY['critical', 'high', 'normal', 'low']) THEN
        RETURN 'priority must be critical, high, normal or low';
    END IF;
    size := coalesce(octet_length(n ->> 'title'), 0) + coalesce(octet_length(n ->> 'body'), 0) + coalesce(octet_length((n -> 'data')::text), 0);
    IF size > (CASE WHEN coalesce(n ->> 'channel', 'webhook') IN ('webhook', 'email', 'log') THEN 262144 ELSE 4096 END) THEN
        RETURN 'title, body and data together are too large, ' || size || ' bytes';
    END IF;
    FOREACH field IN ARRAY ARRAY['send_at', 'expires_at'] LOOP
        IF n ->> field !~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' THEN
            RETURN field || ' must be a time such as 2027-01-31T12:00:00Z';
        END IF;
    END LOOP;
    BEGIN
        IF (n ->> 'send_at')::timestamptz > clock_timestamp() + interval '90 days' THEN RETURN 'send_at may be at most 90 days ahead'; END IF;
        IF (n ->> 'expires_at')::timestamptz <= greatest((n ->> 'send_at')::timestamptz, clock_timestamp()) THEN
            RETURN 'expires_at must be later than now and than send_at';
        END IF;
    EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
        RETURN 'send_at and expires_at must be times that the calendar has';
    END;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Accepts a notification, in the form that the API takes, if and only if the caller's transaction commits, and gives its
-- id. The same id twice is one notification. What is wrong with it is an error with the code 22023.
-- +goose StatementBegin
CREATE FUNCTION pacer.enqueue(notification jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n CONSTANT jsonb := jsonb_strip_nulls(notification);
    fault CONSTANT text := pacer.fault(n);
    new_id CONSTANT text := coalesce(n ->> 'id', pacer.uuid7()::text);
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'pacer.enqueue: %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO pacer.notifications
        (id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key)
    VALUES (new_id, n ->> 'user_id', coalesce(n ->> 'category', 'default'), coalesce(n ->> 'channel', 'webhook'),
        coalesce(n ->> 'to', ''), coalesce(n ->> 'title', ''), coalesce(n ->> 'body', ''), CASE WHEN n ? 'data' THEN (notification -> 'data')::json END,
        array_position(ARRAY['critical', 'high', 'normal', 'low'], coalesce(n ->> 'priority', 'normal')),
        (n ->> 'send_at')::timestamptz, (n ->> 'expires_at')::timestamptz, coalesce(n ->> 'collapse_key', ''))
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        INSERT INTO pacer.outbox (id) VALUES (new_id) ON CONFLICT DO NOTHING;
    END IF;
    RETURN new_id;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pacer.enqueue(jsonb);
DROP FUNCTION pacer.fault(jsonb);
DROP FUNCTION pacer.uuid7();
