-- What channels need: contents in a provider's own format, and what became of a notification on each of a user's devices.

-- +goose Up
ALTER TABLE pacer.notifications ADD COLUMN override json;

-- When and why a device was found to take no more is in reason and deactivated_at.
ALTER TABLE pacer.devices ADD COLUMN deactivated_at timestamptz;

-- What became of a notification without a target of its own, by device.
CREATE TABLE pacer.deliveries (
    notification_id text COLLATE "C" NOT NULL,
    device_id       text COLLATE "C" NOT NULL,
    attempts        integer NOT NULL,
    -- ended is true once the device is not tried again.
    ended           boolean NOT NULL,
    outcome         text COLLATE "C" NOT NULL,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (notification_id, device_id)
);

-- What is wrong with an override; NULL when nothing is. What is wrong with all else is told by fault_but_override.
ALTER FUNCTION pacer.fault(jsonb) RENAME TO fault_but_override;

-- +goose StatementBegin
CREATE FUNCTION pacer.fault(n jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_channel text;
BEGIN
    IF n IS NULL OR jsonb_typeof(n) <> 'object' THEN RETURN pacer.fault_but_override(n); END IF;
    FOREACH of_channel IN ARRAY ARRAY['fcm', 'apns', 'webpush', 'email'] LOOP
        IF n ? of_channel AND n ->> 'channel' IS DISTINCT FROM of_channel THEN
            RETURN of_channel || ' is for notifications of the channel ' || of_channel;
        END IF;
        IF n ? of_channel AND jsonb_typeof(n -> of_channel) <> 'object' THEN RETURN of_channel || ' must be a JSON object'; END IF;
        IF octet_length((n -> of_channel)::text) > 262144 THEN RETURN of_channel || ' may have at most 262144 bytes'; END IF;
    END LOOP;
    RETURN pacer.fault_but_override(n - ARRAY['fcm', 'apns', 'webpush', 'email']);
END
$$;
-- +goose StatementEnd

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
DROP FUNCTION pacer.fault(jsonb);
ALTER FUNCTION pacer.fault_but_override(jsonb) RENAME TO fault;
DROP TABLE pacer.deliveries;
ALTER TABLE pacer.devices DROP COLUMN deactivated_at;
ALTER TABLE pacer.notifications DROP COLUMN override;
