-- pacer.enqueue refuses the users that no URL can hold, as the API does.

-- +goose Up
ALTER FUNCTION pacer.faults(jsonb) RENAME TO field_faults;
-- +goose StatementBegin
CREATE FUNCTION pacer.faults(n jsonb) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT pacer.field_faults(n) || CASE WHEN jsonb_typeof(n) = 'object' AND n ->> 'user_id' IN ('.', '..', '/') THEN
        ARRAY['user_id: must not be ' || (n ->> 'user_id') || ', which no URL can hold'] ELSE '{}' END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION pacer.faults(jsonb);
ALTER FUNCTION pacer.field_faults(jsonb) RENAME TO faults;
