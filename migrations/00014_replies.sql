-- What explains a reason: what the provider replied, without secrets and of bounded length or, of a notification that
-- expired for max_defer, when its slot would have been.

-- +goose Up
ALTER TABLE pacer.notifications ADD COLUMN detail text NOT NULL DEFAULT '';
ALTER TABLE pacer.attempts ADD COLUMN reply text NOT NULL DEFAULT '';
ALTER TABLE pacer.deliveries ADD COLUMN reply text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE pacer.deliveries DROP COLUMN reply;
ALTER TABLE pacer.attempts DROP COLUMN reply;
ALTER TABLE pacer.notifications DROP COLUMN detail;
