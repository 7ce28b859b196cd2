-- Pauses, jobs, webhook endpoints and the progress of receivers are records of one table; the audit log and the events
-- are lines of another.

-- +goose Up

-- Documents by kind and key.
CREATE TABLE pacer.records (
    kind    text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    -- version is the number of its latest change among those of its kind.
    version bigint NOT NULL,
    -- body is NULL once it is removed. A removed one stays for a while, so that all processes learn of it. The one with
    -- an empty key has the number of the latest change of those that did not stay.
    body    json,
    -- alias is a second name of it.
    alias   text COLLATE "C",
    PRIMARY KEY (kind, key),
    UNIQUE (kind, version),
    UNIQUE (kind, alias)
);
CREATE INDEX records_removed ON pacer.records (kind, version) WHERE body IS NULL AND key <> '';

-- Lines of logs. Each has a number once its transaction has ended: so numbers have no gaps, and nobody reads one and
-- misses one before it.
CREATE TABLE pacer.lines (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log    text COLLATE "C" NOT NULL,
    number bigint,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    line   jsonb NOT NULL,
    UNIQUE (log, number)
);
CREATE INDEX lines_unnumbered ON pacer.lines (log, id) WHERE number IS NULL;

-- The number of a change is the moment in µs, and higher than that of every change before it. Whoever takes one holds
-- its row until the end of the transaction: so nobody can read a number and miss one before it.
-- +goose StatementBegin
CREATE FUNCTION pacer.next_version(which text) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO pacer.numbers AS n (name, value) VALUES (which, floor(extract(epoch FROM clock_timestamp()) * 1000000))
    ON CONFLICT (name) DO UPDATE SET value = greatest(n.value + 1, excluded.value) RETURNING value
$$;
-- +goose StatementEnd

INSERT INTO pacer.records (kind, key, version, body)
SELECT 'pause', kind || ':' || name, pacer.next_version('pause'),
    json_build_object('kind', kind, 'name', name, 'by', who, 'why', why, 'at', at)
FROM pacer.pauses;
INSERT INTO pacer.records (kind, key, version, body)
SELECT 'job', id, pacer.next_version('job'), job::json FROM pacer.jobs;
INSERT INTO pacer.records (kind, key, version, body, alias)
SELECT 'endpoint', id, pacer.next_version('endpoint'), endpoint::json, url FROM pacer.webhook_endpoints
WHERE url IS NOT NULL ORDER BY version;
INSERT INTO pacer.records (kind, key, version, body)
SELECT 'receiver', receiver, pacer.next_version('receiver'), json_strip_nulls(json_build_object('done', done,
    'holder', holder, 'held_until', held_until, 'failing', failing, 'failing_since', failing_since))
FROM pacer.event_receivers;
INSERT INTO pacer.records (kind, key, version)
SELECT 'cleared', subject, max(floor(extract(epoch FROM at) * 1000000)::bigint) + row_number() OVER (ORDER BY max(at))
FROM pacer.audit WHERE action = 'clear' GROUP BY subject;
INSERT INTO pacer.numbers (name, value) SELECT 'cleared', coalesce(max(version), 0) FROM pacer.records WHERE kind = 'cleared';
INSERT INTO pacer.lines (log, number, at, line)
SELECT 'event', sequence, at, event FROM pacer.events ORDER BY sequence;
INSERT INTO pacer.lines (log, number, at, line)
SELECT 'audit', row_number() OVER (ORDER BY id), at,
    jsonb_build_object('by', who, 'action', action, 'subject', subject, 'detail', detail)
FROM pacer.audit ORDER BY id;
INSERT INTO pacer.numbers (name, value) SELECT 'audit', count(*) FROM pacer.audit;

DROP TABLE pacer.pauses, pacer.jobs, pacer.webhook_endpoints, pacer.event_receivers, pacer.events, pacer.audit;
DROP FUNCTION pacer.next_number(text);

-- What operators did, for people.
CREATE VIEW pacer.audit AS
SELECT id, at, line ->> 'by' AS who, line ->> 'action' AS action, line ->> 'subject' AS subject,
    coalesce(line ->> 'detail', '') AS detail
FROM pacer.lines WHERE log = 'audit';

-- +goose Down
DROP VIEW pacer.audit;

CREATE TABLE pacer.pauses (
    kind text NOT NULL CONSTRAINT pauses_kind_check CHECK (kind IN ('channel', 'category', 'partition')),
    name text COLLATE "C" NOT NULL,
    who  text NOT NULL,
    why  text NOT NULL DEFAULT '',
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, name)
);
INSERT INTO pacer.pauses (kind, name, who, why, at)
SELECT body ->> 'kind', body ->> 'name', body ->> 'by', coalesce(body ->> 'why', ''), (body ->> 'at')::timestamptz
FROM pacer.records WHERE kind = 'pause' AND body IS NOT NULL;

CREATE TABLE pacer.jobs (
    id  text COLLATE "C" PRIMARY KEY,
    job jsonb NOT NULL
);
INSERT INTO pacer.jobs (id, job) SELECT key, body::jsonb FROM pacer.records WHERE kind = 'job' AND body IS NOT NULL;

CREATE TABLE pacer.webhook_endpoints (
    id       text COLLATE "C" PRIMARY KEY,
    url      text COLLATE "C" UNIQUE,
    endpoint jsonb NOT NULL,
    version  bigint NOT NULL UNIQUE,
    removed_at timestamptz
);
CREATE INDEX webhook_endpoints_removed ON pacer.webhook_endpoints (removed_at) WHERE removed_at IS NOT NULL;
INSERT INTO pacer.webhook_endpoints (id, url, endpoint, version)
SELECT key, alias, body::jsonb, version FROM pacer.records WHERE kind = 'endpoint' AND body IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION pacer.next_number(which text) RETURNS bigint LANGUAGE sql AS
    'UPDATE pacer.numbers SET value = value + 1 WHERE name = which RETURNING value';
-- +goose StatementEnd
CREATE TABLE pacer.events (
    sequence bigint PRIMARY KEY DEFAULT pacer.next_number('event'),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    event    jsonb NOT NULL
);
INSERT INTO pacer.events (sequence, at, event)
SELECT number, at, line FROM pacer.lines WHERE log = 'event' AND number IS NOT NULL;
INSERT INTO pacer.events (at, event)
SELECT at, line FROM pacer.lines WHERE log = 'event' AND number IS NULL ORDER BY id;

CREATE TABLE pacer.event_receivers (
    receiver      text COLLATE "C" PRIMARY KEY,
    done          bigint NOT NULL,
    holder        text NOT NULL,
    held_until    timestamptz NOT NULL,
    failing       bigint NOT NULL DEFAULT 0,
    failing_since timestamptz
);
INSERT INTO pacer.event_receivers (receiver, done, holder, held_until)
SELECT key, (body ->> 'done')::bigint, body ->> 'holder', (body ->> 'held_until')::timestamptz
FROM pacer.records WHERE kind = 'receiver' AND body IS NOT NULL;

CREATE TABLE pacer.audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text NOT NULL,
    action  text NOT NULL,
    subject text NOT NULL,
    detail  text NOT NULL DEFAULT ''
);
CREATE INDEX audit_cleared ON pacer.audit (at) WHERE action = 'clear';
INSERT INTO pacer.audit (at, who, action, subject, detail)
SELECT at, line ->> 'by', line ->> 'action', line ->> 'subject', coalesce(line ->> 'detail', '')
FROM pacer.lines WHERE log = 'audit' ORDER BY id;

DROP FUNCTION pacer.next_version(text);
DELETE FROM pacer.numbers WHERE name NOT IN ('endpoint', 'event');
DROP TABLE pacer.lines;
DROP TABLE pacer.records;
