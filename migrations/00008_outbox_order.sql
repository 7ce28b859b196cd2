-- The outbox is emptied oldest first, however much stands in it.

-- +goose Up
CREATE INDEX outbox_left ON pacer.outbox (left_at, id);

-- +goose Down
DROP INDEX pacer.outbox_left;
