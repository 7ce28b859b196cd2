-- pacer.enqueue knows senders with names, such as email:billing: what holds for a kind of channel holds for each of its
-- senders. Of pacer.faults only two conditions change, wherever later versions of it stand.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    before CONSTANT text := pg_get_functiondef('pacer.faults(jsonb)'::regprocedure);
    bound CONSTANT text := replace(before, 'CASE WHEN own IN (', 'CASE WHEN split_part(own, '':'', 1) IN (');
    format CONSTANT text := replace(bound, ':= own <> ALL (', ':= split_part(own, '':'', 1) <> ALL (');
BEGIN
    IF bound = before OR format = bound THEN RAISE EXCEPTION 'pacer.faults is not the one that this migration changes'; END IF;
    EXECUTE format;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('pacer.faults(jsonb)'::regprocedure), 'split_part(own, '':'', 1)', 'own');
END
$$;
-- +goose StatementEnd
