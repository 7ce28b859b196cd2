-- A rebuild knows which windows an operator has cleared.

-- +goose Up

-- Up to which moment a log of a user was forgotten, in µs on the limiter's clock: what was admitted until then counts in
-- it no more. log is category:NAME, cap: for the user's cap, or cap:NAME for a named cap.
CREATE TABLE pacer.cleared (
    user_id text COLLATE "C" NOT NULL,
    log     text COLLATE "C" NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (user_id, log)
);
CREATE INDEX cleared_until ON pacer.cleared (until);

-- +goose Down
DROP TABLE pacer.cleared;
