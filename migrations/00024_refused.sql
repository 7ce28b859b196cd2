-- The relay finds what was refused without reading the rest of the outbox, which is long when Redis has been away.

-- +goose Up
CREATE INDEX outbox_refused ON pacer.outbox (left_at, id) WHERE refused_at IS NOT NULL;

-- +goose Down
DROP INDEX pacer.outbox_refused;
