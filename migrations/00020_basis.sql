-- The basis of each attempt: the version of the policy, and the user's time zone where it mattered. A notification
-- has those of its latest attempt, for the row of an attempt whose worker died.

-- +goose Up
ALTER TABLE pacer.notifications ADD COLUMN policy_version text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN zone text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE pacer.attempts ADD COLUMN policy_version text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN zone text COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE pacer.attempts DROP COLUMN zone, DROP COLUMN policy_version;
ALTER TABLE pacer.notifications DROP COLUMN zone, DROP COLUMN policy_version;
