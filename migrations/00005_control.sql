-- What operators told the deployment, and the trace that a notification belongs to.

-- +goose Up
ALTER TABLE pacer.notifications ADD COLUMN traceparent text NOT NULL DEFAULT '';

CREATE TABLE pacer.pauses (
    kind text NOT NULL CHECK (kind IN ('channel', 'category', 'lane')),
    name text COLLATE "C" NOT NULL,
    who  text NOT NULL,
    why  text NOT NULL DEFAULT '',
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, name)
);

CREATE TABLE pacer.audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text NOT NULL,
    action  text NOT NULL,
    subject text NOT NULL,
    detail  text NOT NULL DEFAULT ''
);

-- +goose Down
DROP TABLE pacer.audit;
DROP TABLE pacer.pauses;
ALTER TABLE pacer.notifications DROP COLUMN traceparent;
