-- Lists find what is rare among a million, and the totals know categories and hours.

-- +goose Up

-- The host of a target, in lower case: that of a URL, also where the URL stands in the JSON of a subscription.
-- +goose StatementBegin
CREATE FUNCTION pacer.host_of(target text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(coalesce(substring(target FROM '://(?:[^/?#@"]*@)?(\[[^]/?#"]*\]|[^]/:?#"[]+)'), ''))
$$;
-- +goose StatementEnd

-- How a notification ended, unless it was delivered: few end otherwise, and these are listed. It does not change while a
-- notification waits or is sent, so a claim stays an update that touches no index (HOT); an index on the status would
-- be written at every claim.
ALTER TABLE pacer.notifications ADD COLUMN ended_as text COLLATE "C" GENERATED ALWAYS AS (
    CASE WHEN status IN ('failed', 'expired', 'cancelled', 'replaced') THEN status END) STORED;
CREATE INDEX notifications_ended ON pacer.notifications (ended_as, accepted_at, id) WHERE ended_as IS NOT NULL;

-- Changes of many notifications, as the process that works on one left it. There are some hundred at most.
CREATE TABLE pacer.jobs (
    id  text COLLATE "C" PRIMARY KEY,
    job json NOT NULL
);

-- +goose Down
DROP TABLE pacer.jobs;
DROP INDEX pacer.notifications_ended;
ALTER TABLE pacer.notifications DROP COLUMN ended_as;
DROP FUNCTION pacer.host_of(text);
