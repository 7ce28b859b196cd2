-- Of two notifications with one collapse key only the newer is claimed, whatever Redis has forgotten.

-- +goose Up

-- A claim asks for a newer one of the same user, category and key. Notifications without a key are not in the index.
CREATE INDEX notifications_newest ON pacer.notifications (user_id, category, collapse_key, accepted_at) WHERE collapse_key <> '';

-- +goose Down
DROP INDEX pacer.notifications_newest;
