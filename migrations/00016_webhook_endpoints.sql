-- Webhook endpoints with their keys, headers and health; the events that tell of them; and who has received those.

-- +goose Up

-- Numbers that are given out in the order in which transactions commit: whoever takes one holds its row until the end
-- of the transaction. So nobody can read a number and miss one before it. They are taken rarely.
CREATE TABLE pacer.numbers (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL DEFAULT 0
);
INSERT INTO pacer.numbers (name) VALUES ('endpoint'), ('event');

-- +goose StatementBegin
CREATE FUNCTION pacer.next_number(which text) RETURNS bigint LANGUAGE sql AS
    'UPDATE pacer.numbers SET value = value + 1 WHERE name = which RETURNING value';
-- +goose StatementEnd

CREATE TABLE pacer.webhook_endpoints (
    id       text COLLATE "C" PRIMARY KEY,
    -- url is the URL in the form in which URLs are compared; NULL once the endpoint is removed. A removed one stays for
    -- a while, so that all processes learn of it.
    url      text COLLATE "C" UNIQUE,
    -- endpoint has everything that is known of it, its keys included.
    endpoint jsonb NOT NULL,
    -- version is the number of its latest change among the changes of all.
    version  bigint NOT NULL UNIQUE,
    removed_at timestamptz
);
CREATE INDEX webhook_endpoints_removed ON pacer.webhook_endpoints (removed_at) WHERE removed_at IS NOT NULL;

CREATE TABLE pacer.events (
    sequence bigint PRIMARY KEY DEFAULT pacer.next_number('event'),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    event    jsonb NOT NULL
);

CREATE TABLE pacer.event_receivers (
    -- receiver stands for its URL, which may hold a secret.
    receiver      text COLLATE "C" PRIMARY KEY,
    -- done is the sequence number up to which it got all events.
    done          bigint NOT NULL,
    -- holder is the process that sends to it, until held_until.
    holder        text NOT NULL,
    held_until    timestamptz NOT NULL,
    -- failing is the event that it did not take, failing_since since when.
    failing       bigint NOT NULL DEFAULT 0,
    failing_since timestamptz
);

-- +goose Down
DROP TABLE pacer.event_receivers;
DROP TABLE pacer.events;
DROP TABLE pacer.webhook_endpoints;
DROP FUNCTION pacer.next_number(text);
DROP TABLE pacer.numbers;
