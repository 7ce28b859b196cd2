-- How long an attempt took, in µs on the clock of the worker that made it; 0 when that is not known.

-- +goose Up
ALTER TABLE pacer.attempts ADD COLUMN took_us bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE pacer.attempts DROP COLUMN took_us;
