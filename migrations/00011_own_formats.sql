-- Content in a channel's own format stands under the channel's name, whichever channels there are: adding one needs no
-- change here.

-- +goose Up
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.fault(n jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
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
