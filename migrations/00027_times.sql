-- pacer.enqueue takes every form of RFC 3339, as the API does: small letters, a blank for the T, second 60. And what it
-- refuses does not depend on the session: functions with a backslash in a text read it by the standard.

-- +goose Up
-- +goose StatementBegin
DO $do$
DECLARE
    f record;
    form text := $$T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]$$;
    forms text := $$[Tt ]([01]\d|2[0-3]):([0-5]\d:[0-5]\d|59:60)(\.\d+)?([Zz]|[+-]$$;
BEGIN
    EXECUTE replace(pg_get_functiondef('pacer.field_faults(jsonb)'::regprocedure), form, forms);
    FOR f IN SELECT oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = 'pacer'::regnamespace AND position(chr(92) IN prosrc) > 0 LOOP
        EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', f.name);
    END LOOP;
END
$do$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $do$
DECLARE
    f record;
    form text := $$T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]$$;
    forms text := $$[Tt ]([01]\d|2[0-3]):([0-5]\d:[0-5]\d|59:60)(\.\d+)?([Zz]|[+-]$$;
BEGIN
    FOR f IN SELECT oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = 'pacer'::regnamespace AND position(chr(92) IN prosrc) > 0 LOOP
        EXECUTE format('ALTER FUNCTION %s RESET standard_conforming_strings', f.name);
    END LOOP;
    EXECUTE replace(pg_get_functiondef('pacer.field_faults(jsonb)'::regprocedure), forms, form);
END
$do$;
-- +goose StatementEnd
