-- What the durable store keeps. Postgres holds the truth; all of Redis can be built again from here.

-- +goose Up
CREATE SCHEMA pacer;

-- Notifications: what was accepted, every attempt at it, how it ended.

-- An arrival only orders: what is accepted after another's commit has a higher one, whatever the clock says. Each value
-- stands for itself and the 99 numbers behind it, so that a statement takes few; arrivals have gaps. A value is taken
-- when it is needed, never kept by a session. Redis has room for numbers below 2^51.
CREATE SEQUENCE pacer.arrivals INCREMENT 100 MINVALUE 100 MAXVALUE 2251799813685100;

CREATE TABLE pacer.notifications (
    id              text COLLATE "C" PRIMARY KEY,
    user_id         text COLLATE "C" NOT NULL,
    category        text COLLATE "C" NOT NULL,
    channel         text COLLATE "C" NOT NULL,
    target          text NOT NULL DEFAULT '',
    title           text NOT NULL DEFAULT '',
    body            text NOT NULL DEFAULT '',
    data            json,
    -- override is content in the channel's own format.
    override        json,
    priority        smallint NOT NULL,
    send_at         timestamptz,
    expires_at      timestamptz,
    collapse_key    text COLLATE "C" NOT NULL DEFAULT '',
    group_key       text COLLATE "C" NOT NULL DEFAULT '',
    traceparent     text NOT NULL DEFAULT '',
    -- The key belongs to the notification until it has ended, and for 24 hours after its acceptance; fingerprint tells
    -- requests with one key apart. Both are NULL without a key, and when it is free again.
    idempotency_key text COLLATE "C",
    fingerprint     text COLLATE "C",
    accepted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    arrival         bigint NOT NULL DEFAULT nextval('pacer.arrivals'),
    -- waiting stands for scheduled, queued and deferred: which of them it is follows from its place in Redis.
    status          text COLLATE "C" NOT NULL DEFAULT 'waiting' CHECK (status IN (
        'waiting', 'retrying', 'sending', 'delivered', 'failed', 'expired', 'cancelled', 'replaced')),
    -- detail explains the reason: what the provider replied, or when the slot would have been.
    reason          text NOT NULL DEFAULT '',
    detail          text NOT NULL DEFAULT '',
    -- generation counts claims and fences them: a result of an earlier one is not written.
    generation      integer NOT NULL DEFAULT 0,
    -- digest_id is the carrier of the digest that it is in, or went with; '' for none. See joinSQL.
    digest_id       text COLLATE "C" NOT NULL DEFAULT '',
    -- token of the latest claim: the same claim asked for twice is one.
    token           text COLLATE "C" NOT NULL DEFAULT '',
    claimed_until   timestamptz,
    -- admitted_at, of the latest claim: the moment that the limiter counted, in µs on its clock. policy_version and zone
    -- are what it was decided by.
    admitted_at     bigint NOT NULL DEFAULT 0,
    policy_version  text COLLATE "C" NOT NULL DEFAULT '',
    zone            text COLLATE "C" NOT NULL DEFAULT '',
    attempts        integer NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,
    crashes         integer NOT NULL DEFAULT 0,
    -- not_before is the moment of a retry, in µs on the limiter's clock.
    not_before      bigint,
    -- history of deferrals: lines of µs, kind and detail.
    history         text NOT NULL DEFAULT '',
    deferrals       integer NOT NULL DEFAULT 0,
    -- released says that an operator let it go before all others, whatever limits say; changes are lines of the history
    -- about that, and about other priorities and moments that it was given while it waited.
    released        boolean NOT NULL DEFAULT false,
    changes         text NOT NULL DEFAULT '',
    ended_at        timestamptz,
    -- How it ended, unless it was delivered: few end otherwise, and these are listed. It does not change while the
    -- notification waits or is sent, so a claim stays an update that touches no index (HOT).
    ended_as        text COLLATE "C" GENERATED ALWAYS AS (
        CASE WHEN status IN ('failed', 'expired', 'cancelled', 'replaced') THEN status END) STORED,
    CHECK ((ended_at IS NOT NULL) = (status IN ('delivered', 'failed', 'expired', 'cancelled', 'replaced')))
) WITH (fillfactor = 80);

-- Listing and purging go by time, a user's listing by user and time, the rebuild by what is open.
CREATE INDEX notifications_accepted ON pacer.notifications (accepted_at, id);
CREATE INDEX notifications_user ON pacer.notifications (user_id, accepted_at, id);
CREATE INDEX notifications_open ON pacer.notifications (accepted_at, id) WHERE ended_at IS NULL;
CREATE INDEX notifications_ended ON pacer.notifications (ended_as, accepted_at, id) WHERE ended_as IS NOT NULL;
CREATE UNIQUE INDEX notifications_key ON pacer.notifications (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX notifications_group ON pacer.notifications (user_id, group_key) WHERE group_key <> '';
-- A claim asks for a newer one of the same user, category and collapse key.
CREATE INDEX notifications_newest ON pacer.notifications (user_id, category, collapse_key, arrival) WHERE collapse_key <> '';

-- The host of a target, in lower case: that of a URL, also where the URL stands in the JSON of a subscription.
-- +goose StatementBegin
CREATE FUNCTION pacer.host_of(target text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET standard_conforming_strings = on AS $$
    SELECT lower(coalesce(substring(target FROM '://(?:[^/?#@"]*@)?(\[[^]/?#"]*\]|[^]/:?#"[]+)'), ''))
$$;
-- +goose StatementEnd

-- One row per claim, written with its result: what fills a user's windows, and the timeline.
CREATE TABLE pacer.attempts (
    notification_id text COLLATE "C" NOT NULL,
    generation      integer NOT NULL,
    attempt         integer NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    category        text COLLATE "C" NOT NULL,
    admitted_at     bigint NOT NULL,
    ended_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome         text COLLATE "C" NOT NULL,
    -- reply is the provider's, without secrets and of bounded length.
    reason          text NOT NULL DEFAULT '',
    reply           text NOT NULL DEFAULT '',
    -- took_us is how long it took, in µs on the clock of its worker; 0 when that is not known.
    took_us         bigint NOT NULL DEFAULT 0,
    -- counted is false when the slot was given back.
    counted         boolean NOT NULL DEFAULT true,
    policy_version  text COLLATE "C" NOT NULL DEFAULT '',
    zone            text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (notification_id, generation)
);
CREATE INDEX attempts_user ON pacer.attempts (user_id, admitted_at);
-- Rows come in the order of their moments, near enough for an index of blocks.
CREATE INDEX attempts_admitted ON pacer.attempts USING brin (admitted_at) WITH (pages_per_range = 32);

-- The outbox: what Redis may not know yet.

-- The transaction that accepts notifications, or ends or changes one that waits, writes a row of ids. Whoever has told Redis
-- removes the row. What a process leaves behind, because it died or because Redis was away, any relay takes up.
CREATE TABLE pacer.outbox (
    -- key is the smallest of the ids of an accepting statement, or '~' and the id of what has ended or was returned, or
    -- '^' and the id of what was changed.
    key        text COLLATE "C" PRIMARY KEY,
    ids        text[] COLLATE "C" NOT NULL,
    -- due_at is when a relay takes the row up: until then, the process that wrote it is about to tell Redis.
    due_at     timestamptz NOT NULL DEFAULT clock_timestamp() + interval '3 s',
    -- unchecked is true for what came through pacer.enqueue, as long as no process has found that the policy and its
    -- channel allow it. refused_at is when the first process found that they do not.
    unchecked  boolean NOT NULL DEFAULT false,
    refused_at timestamptz
);
-- A row lives for some milliseconds: compressing it costs more than it saves.
ALTER TABLE pacer.outbox ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX outbox_due ON pacer.outbox (due_at) WHERE NOT unchecked;
CREATE INDEX outbox_unchecked ON pacer.outbox (refused_at, key) WHERE unchecked;

-- A trigger, so that no way into the table passes the outbox by. The setting pacer.outbox says 'unchecked' for
-- pacer.enqueue, and 'none' when the partitions are about to be rebuilt from the table.
-- +goose StatementBegin
CREATE FUNCTION pacer.note_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    way CONSTANT text := current_setting('pacer.outbox', true);
BEGIN
    IF way = 'unchecked' THEN
        INSERT INTO pacer.outbox (key, ids, unchecked) SELECT id, ARRAY[id], true FROM fresh;
    ELSIF way IS DISTINCT FROM 'none' THEN
        INSERT INTO pacer.outbox AS o (key, ids)
        SELECT min(id), array_agg(id) FROM (SELECT id, (row_number() OVER () - 1) / 1000 AS part FROM fresh) f GROUP BY part
        ON CONFLICT (key) DO UPDATE SET ids = o.ids || excluded.ids;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER note_accepted AFTER INSERT ON pacer.notifications
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION pacer.note_accepted();

-- The state in Redis: which one belongs to this database, and what it may have forgotten.

-- How often the state of each partition was built in Redis. What was granted under an earlier state is void: the windows
-- of the present one do not hold it. rebuilt_at is when that was, in µs on the limiter's clock.
CREATE TABLE pacer.partitions (
    partition  integer PRIMARY KEY,
    epoch      bigint NOT NULL,
    rebuilt_at bigint NOT NULL,
    -- moved names the events that were read from the partition last.
    moved      text COLLATE "C" NOT NULL DEFAULT ''
);

-- history names the server's history by its system identifier and timeline. It is empty where the role may not ask.
-- +goose StatementBegin
CREATE FUNCTION pacer.history() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported
        OR object_not_in_prerequisite_state THEN
    RETURN '';
END
$$;
-- +goose StatementEnd

-- The latest marks. Each is written before Redis remembers it, so the history in which Redis was written has it. Redis
-- notices by them when the database is another one, or an older state of this one.
CREATE TABLE pacer.marks (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mark     text COLLATE "C" NOT NULL UNIQUE, -- a name that the database keeps, a dot, and a random name
    history  text COLLATE "C" NOT NULL DEFAULT pacer.history(),
    -- The transaction after this one, and whether this one was alone: if so, nothing was written since while there is no
    -- other transaction.
    next_xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint + 1,
    alone    boolean NOT NULL DEFAULT pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id(),
    at       timestamptz NOT NULL DEFAULT now()
);
INSERT INTO pacer.marks (mark) VALUES (gen_random_uuid() || '.' || gen_random_uuid());

-- Up to which moment a log of a user was forgotten, in µs on the limiter's clock: what was admitted until then counts in
-- it no more. log is category:NAME, cap: for the user's cap, or cap:NAME for a named cap.
CREATE TABLE pacer.cleared (
    user_id text COLLATE "C" NOT NULL,
    log     text COLLATE "C" NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (user_id, log)
);
CREATE INDEX cleared_until ON pacer.cleared (until);

-- Totals: what has happened since the deployment began, added up in the transactions in which it happened.

-- Each statement that accepts, claims, settles or ends adds a row, so that none waits for another; the relay adds rows
-- up, so that there are few. A row with an hour is not in the history yet. The row to which the relay adds all others up
-- has none.
CREATE TABLE pacer.tallies (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hour      timestamptz,
    category  text COLLATE "C",
    accepted  bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    deferred  bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    expired   bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    replaced  bigint NOT NULL DEFAULT 0,
    attempts  bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What happened in each hour and category, for a month: the relay adds up the tallies to it.
CREATE TABLE pacer.history (
    hour      timestamptz NOT NULL,
    category  text COLLATE "C" NOT NULL,
    accepted  bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    deferred  bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    expired   bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    replaced  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, category)
);

-- What processes accepted that have no metrics of their own, such as pacer.enqueue, until a process with metrics counts it.
CREATE TABLE pacer.accepted_elsewhere (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    category text COLLATE "C" NOT NULL,
    accepted bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Triggers, and not parts of the statements, so that nothing passes them by.
-- +goose StatementBegin
CREATE FUNCTION pacer.tally_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pacer.tallies (hour, category, accepted, delivered, failed, expired, cancelled, replaced, attempts)
    SELECT date_trunc('hour', accepted_at, 'UTC'), category, count(*), count(*) FILTER (WHERE status = 'delivered'),
        count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'expired'),
        count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status = 'replaced'), sum(attempts)
    FROM fresh GROUP BY 1, 2;
    IF current_setting('pacer.counted', true) IS DISTINCT FROM 'yes' THEN
        INSERT INTO pacer.accepted_elsewhere (category, accepted) SELECT category, count(*) FROM fresh GROUP BY category;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tally_accepted AFTER INSERT ON pacer.notifications
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION pacer.tally_accepted();

-- What a statement adds to the totals is what its rows hold after it less what they held before. Few hold an end already.
-- +goose StatementBegin
CREATE FUNCTION pacer.tally_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tried bigint;
    ended bigint;
    wanted text[];
BEGIN
    SELECT sum(attempts), count(ended_at) INTO tried, ended FROM after;
    SELECT tried - sum(attempts), ended + count(ended_at) INTO tried, ended FROM before;
    IF ended > 0 THEN
        INSERT INTO pacer.tallies (hour, category, delivered, failed, expired, cancelled, replaced, attempts)
        SELECT date_trunc('hour', clock_timestamp(), 'UTC'), category,
            coalesce(sum(n) FILTER (WHERE status = 'delivered'), 0), coalesce(sum(n) FILTER (WHERE status = 'failed'), 0),
            coalesce(sum(n) FILTER (WHERE status = 'expired'), 0), coalesce(sum(n) FILTER (WHERE status = 'cancelled'), 0),
            coalesce(sum(n) FILTER (WHERE status = 'replaced'), 0), sum(n * attempts)
        FROM (SELECT category, status, attempts, 1 AS n FROM after
            UNION ALL SELECT category, status, attempts, -1 FROM before) changed
        GROUP BY category;
        -- Nothing is inserted as ended, except for what another store told of before.
        wanted := pacer.wanted_events();
        IF wanted IS NOT NULL THEN
            INSERT INTO pacer.happened
                (at, type, notification_id, user_id, category, status, reason, attempt, policy_version)
            SELECT ended_at, told.type, id, user_id, category, status, told.reason, attempts, policy_version
            FROM after, LATERAL (VALUES ('notification.' || status, reason),
                (CASE WHEN status = 'delivered' AND digest_id NOT IN ('', id) THEN 'notification.digested' END, digest_id)
            ) AS told(type, reason) WHERE ended_at IS NOT NULL AND told.type = ANY (wanted)
                AND id NOT IN (SELECT id FROM before WHERE ended_at IS NOT NULL);
        END IF;
    ELSIF tried <> 0 THEN
        INSERT INTO pacer.tallies (attempts) VALUES (tried);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tally_changed AFTER UPDATE ON pacer.notifications
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION pacer.tally_changed();

-- What only Redis counts, as it was last seen: of the present state of a partition, and of all earlier ones together.
CREATE TABLE pacer.partition_counts (
    partition         integer PRIMARY KEY,
    epoch             bigint NOT NULL,
    pulls             bigint NOT NULL,
    deferrals         bigint NOT NULL,
    earlier_pulls     bigint NOT NULL DEFAULT 0,
    earlier_deferrals bigint NOT NULL DEFAULT 0
);

-- The deferrals of each category, noted in the same way. What they grow by is tallied in the hour in which it is noted.
CREATE TABLE pacer.category_deferrals (
    partition integer NOT NULL,
    category  text COLLATE "C" NOT NULL,
    epoch     bigint NOT NULL,
    deferrals bigint NOT NULL,
    earlier   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition, category)
);
-- +goose StatementBegin
CREATE FUNCTION pacer.tally_deferrals() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    grown bigint := NEW.earlier + NEW.deferrals;
BEGIN
    IF TG_OP = 'UPDATE' THEN grown := grown - OLD.earlier - OLD.deferrals; END IF;
    IF grown > 0 THEN
        INSERT INTO pacer.tallies (hour, category, deferred)
        VALUES (date_trunc('hour', clock_timestamp(), 'UTC'), NEW.category, grown);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tally_deferrals AFTER INSERT OR UPDATE ON pacer.category_deferrals
    FOR EACH ROW EXECUTE FUNCTION pacer.tally_deferrals();

-- Users: what they want, and the devices they have.

-- Every process follows the changes of preferences. They get numbers, and whoever writes one holds a lock until the
-- transaction has ended: so a number is never seen before a smaller one, and whoever reads needs nothing twice.
CREATE SEQUENCE pacer.preferences_changes;
CREATE TABLE pacer.preferences (
    user_id            text COLLATE "C" PRIMARY KEY,
    opt_out_categories text[] NOT NULL DEFAULT '{}',
    opt_out_channels   text[] NOT NULL DEFAULT '{}',
    -- limits by category, in the form of the policy file; they replace the category's own.
    limits             jsonb NOT NULL DEFAULT '{}',
    time_zone          text NOT NULL DEFAULT '',
    -- quiet_hours: {"window": NAME}, {"closed": […]}, {"open": […]} or {"off": true}; null: those of the policy.
    quiet_hours        jsonb,
    quiet_until        timestamptz,
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    change             bigint NOT NULL DEFAULT nextval('pacer.preferences_changes')
);
CREATE UNIQUE INDEX preferences_change ON pacer.preferences (change);
-- +goose StatementBegin
CREATE FUNCTION pacer.order_preferences() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(123636629792114); -- "prefer" in ASCII
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION pacer.number_preferences() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.change := nextval('pacer.preferences_changes');
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER order_preferences BEFORE INSERT OR UPDATE ON pacer.preferences
    FOR EACH STATEMENT EXECUTE FUNCTION pacer.order_preferences();
CREATE TRIGGER number_preferences BEFORE INSERT OR UPDATE ON pacer.preferences
    FOR EACH ROW EXECUTE FUNCTION pacer.number_preferences();

CREATE TABLE pacer.devices (
    user_id        text COLLATE "C" NOT NULL,
    device_id      text COLLATE "C" NOT NULL,
    channel        text COLLATE "C" NOT NULL,
    target         text NOT NULL,
    active         boolean NOT NULL DEFAULT true,
    -- reason and deactivated_at tell why and when the device was found to take no more.
    reason         text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deactivated_at timestamptz,
    PRIMARY KEY (user_id, device_id)
);

-- What became of a notification without a target of its own, by device.
CREATE TABLE pacer.deliveries (
    notification_id text COLLATE "C" NOT NULL,
    device_id       text COLLATE "C" NOT NULL,
    attempts        integer NOT NULL,
    -- ended is true once the device is not tried again.
    ended           boolean NOT NULL,
    outcome         text COLLATE "C" NOT NULL,
    reply           text NOT NULL DEFAULT '',
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (notification_id, device_id)
);

-- Records: pauses, jobs, webhook endpoints, the progress of receivers; and logs: the audit log, the events.

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

-- Numbers that are given out in the order in which transactions commit: whoever takes one holds its row until the end
-- of the transaction. So nobody can read a number and miss one before it. They are taken rarely.
CREATE TABLE pacer.numbers (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL DEFAULT 0
);
INSERT INTO pacer.numbers (name) VALUES ('endpoint'), ('event'), ('cleared'), ('audit');

-- The number of a record's change is the moment in µs, and higher than that of every change before it.
-- +goose StatementBegin
CREATE FUNCTION pacer.next_version(which text) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO pacer.numbers AS n (name, value) VALUES (which, floor(extract(epoch FROM clock_timestamp()) * 1000000))
    ON CONFLICT (name) DO UPDATE SET value = greatest(n.value + 1, excluded.value) RETURNING value
$$;
-- +goose StatementEnd

-- What happened to notifications and devices, in the order in which it was written, until it gets its place in the log
-- of events. Nothing is written while nobody wants events.
CREATE TABLE pacer.happened (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    type            text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C",
    device_id       text COLLATE "C",
    user_id         text COLLATE "C",
    category        text COLLATE "C",
    status          text COLLATE "C",
    reason          text,
    attempt         integer,
    policy_version  text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The types of events that somebody wants: those of the latest process that sends events, for as long as it said.
-- +goose StatementBegin
CREATE FUNCTION pacer.wanted_events() RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT nullif(ARRAY (SELECT json_array_elements_text(body -> 'types')), '{}') FROM pacer.records
    WHERE kind = 'pause' AND key = 'events' AND json_typeof(body -> 'types') = 'array' AND (body ->> 'until')::timestamptz > clock_timestamp()
$$;
-- +goose StatementEnd

-- What operators did, for people.
CREATE VIEW pacer.audit AS
SELECT id, at, line ->> 'by' AS who, line ->> 'action' AS action, line ->> 'subject' AS subject,
    coalesce(line ->> 'detail', '') AS detail
FROM pacer.lines WHERE log = 'audit';

-- pacer.enqueue accepts a notification within the caller's own transaction.

-- A UUID of version 7, whose first 48 bits are the time in ms: ids that were made one after the other sort so.
-- +goose StatementBegin
CREATE FUNCTION pacer.uuid7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
        'hex')::uuid
$$;
-- +goose StatementEnd

-- Leaves out what says nothing: members that are null, and empty texts.
-- +goose StatementBegin
CREATE FUNCTION pacer.given(notification jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(notification) <> 'object' THEN notification ELSE
        (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(notification)
        WHERE value <> 'null' AND (value <> '""' OR key IN ('data', 'template'))) END
$$;
-- +goose StatementEnd

-- Names what a JSON value is: "a number", "an array".
-- +goose StatementBegin
CREATE FUNCTION pacer.kind(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(value) IN ('array', 'object') THEN 'an ' ELSE 'a ' END || jsonb_typeof(value)
$$;
-- +goose StatementEnd

-- Tells what is wrong with a notification in its JSON form, each fault as "field: message"; none when nothing is. It
-- knows the limits of the API, neither the policy nor the channels: what these refuse ends as failed. What it finds does
-- not depend on the session: a function with a backslash in a text reads it by the standard.
-- +goose StatementBegin
CREATE FUNCTION pacer.faults(n jsonb) RETURNS text[] LANGUAGE plpgsql STABLE
SET standard_conforming_strings = on AS $$
DECLARE
    texts CONSTANT text[] := ARRAY['id', 'user_id', 'category', 'channel', 'to', 'title', 'body', 'priority', 'send_at',
        'expires_at', 'collapse_key', 'group_key'];
    own CONSTANT text := coalesce(n ->> 'channel', 'webhook');
    -- Content in the channel's own format stands under the channel's name. A channel is no field's name.
    formatted CONSTANT boolean := own <> ALL (texts || ARRAY['data', 'template', 'idempotency_key']);
    most CONSTANT int := 262144;
    faults text[] := '{}';
    field text;
    size int;
    moment timestamptz;
    sent timestamptz;
BEGIN
    IF n IS NULL OR jsonb_typeof(n) <> 'object' THEN RETURN ARRAY['notification: must be a JSON object']; END IF;
    FOR field IN SELECT k FROM jsonb_object_keys(n) k WHERE k <> ALL (texts || ARRAY['data']) AND NOT (formatted AND k = own)
        ORDER BY k LIMIT 10
    LOOP
        faults := faults || (field || ': ' || CASE
            WHEN field = 'template' THEN 'only the API makes contents from templates; give title and body'
            WHEN field = 'idempotency_key' THEN 'only the API keeps keys; give an id, which makes repeats one notification'
            ELSE 'is not a field of a notification; its fields are ' || array_to_string(texts || ARRAY['data'], ', ') END);
    END LOOP;
    FOREACH field IN ARRAY texts LOOP
        IF n ? field AND jsonb_typeof(n -> field) <> 'string' THEN
            faults := faults || format('%s: must be a string, is %s', field, pacer.kind(n -> field));
        END IF;
    END LOOP;
    IF faults <> '{}' THEN RETURN faults; END IF;

    IF octet_length(n ->> 'id') > 64 THEN
        faults := faults || format('id: must have 1 to 64 characters, has %s', octet_length(n ->> 'id'));
    ELSIF n ->> 'id' IN ('.', '..') THEN
        faults := faults || format('id: must not be %s, which no URL can hold', n ->> 'id');
    ELSIF n ->> 'id' !~ '^[A-Za-z0-9._:-]+$' THEN
        faults := faults || format('id: may hold only A-Z a-z 0-9 . _ : - and is %s', n -> 'id');
    END IF;
    IF NOT n ? 'user_id' THEN
        faults := faults || 'user_id: is required'::text;
    ELSIF n ->> 'user_id' IN ('.', '..', '/') THEN
        faults := faults || format('user_id: must not be %s, which no URL can hold', n ->> 'user_id');
    END IF;
    FOR field, size IN VALUES ('user_id', 256), ('to', 4096), ('collapse_key', 64), ('group_key', 64), ('category', 256), ('channel', 256) LOOP
        IF octet_length(n ->> field) > size THEN
            faults := faults || format('%s: may have at most %s bytes, has %s', field, size, octet_length(n ->> field));
        ELSIF n ->> field ~ '[\x01-\x1f\x7f-\u009f]' THEN
            faults := faults || format('%s: must not hold control characters', field);
        END IF;
    END LOOP;
    IF n ->> 'priority' <> ALL (ARRAY['critical', 'high', 'normal', 'low']) THEN
        faults := faults || format('priority: must be critical, high, normal or low, is %s', left((n -> 'priority')::text, 64));
    END IF;
    FOREACH field IN ARRAY ARRAY['data', CASE WHEN formatted THEN own END] LOOP
        CONTINUE WHEN field IS NULL OR NOT n ? field;
        IF jsonb_typeof(n -> field) <> 'object' THEN
            faults := faults || format('%s: must be a JSON object, such as {"order":17}, is %s', field, pacer.kind(n -> field));
        ELSIF jsonb_path_exists(n -> field, 'strict $.**{63} ? (@.type() == "object" || @.type() == "array")') THEN
            faults := faults || format('%s: may be nested at most 64 levels deep', field);
        ELSIF field <> 'data' AND octet_length((n -> field)::text) > 262144 THEN
            faults := faults || format('%s: may have at most 262144 bytes, has %s', field, octet_length((n -> field)::text));
        END IF;
    END LOOP;
    size := coalesce(octet_length(n ->> 'title'), 0) + coalesce(octet_length(n ->> 'body'), 0) + coalesce(octet_length((n -> 'data')::text), 0);
    IF size > most THEN
        faults := faults || format('body: title, body and data together may have at most %s bytes on channel %s, have %s', most, own, size);
    END IF;
    FOREACH field IN ARRAY ARRAY['send_at', 'expires_at'] LOOP
        CONTINUE WHEN NOT n ? field;
        BEGIN
            IF n ->> field !~ '^2\d{3}-\d\d-\d\d[Tt ]([01]\d|2[0-3]):([0-5]\d:[0-5]\d|59:60)(\.\d+)?([Zz]|[+-](0\d|1[0-5]):[0-5]\d)$' THEN
                RAISE datetime_field_overflow;
            END IF;
            moment := (n ->> field)::timestamptz;
        EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
            faults := faults || format('%s: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is %s', field, left((n -> field)::text, 64));
            CONTINUE;
        END;
        IF field = 'send_at' THEN
            sent := moment;
            IF sent > clock_timestamp() + interval '90 days' THEN
                faults := faults || format('send_at: may lie at most 90 days ahead, is %s', n ->> field);
            END IF;
        ELSIF moment <= clock_timestamp() THEN
            faults := faults || format('expires_at: %s has passed: it would expire before it can be sent', n ->> field);
        ELSIF moment <= sent THEN
            faults := faults || format('expires_at: must be later than send_at: it is %s, and send_at is %s', n ->> field, n ->> 'send_at');
        END IF;
    END LOOP;
    RETURN faults;
END
$$;
-- +goose StatementEnd
-- Tells the same in one text, NULL when nothing is wrong.
-- +goose StatementBegin
CREATE FUNCTION pacer.fault(n jsonb) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT nullif(array_to_string(pacer.faults(pacer.given(n)), '; '), '')
$$;
-- +goose StatementEnd
-- Compares a stored JSON text with one that comes in, by their meaning. What Postgres can't compare, such as a text with
-- U+0000, differs.
-- +goose StatementBegin
CREATE FUNCTION pacer.same_json(stored json, given jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN stored::jsonb IS NOT DISTINCT FROM given;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END
$$;
-- +goose StatementEnd

-- Compares to the microsecond: the API cuts a time there, and Postgres rounds it.
-- +goose StatementBegin
CREATE FUNCTION pacer.same_time(a timestamptz, b timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(a BETWEEN b - interval '1 microsecond' AND b + interval '1 microsecond', a IS NULL AND b IS NULL)
$$;
-- +goose StatementEnd

-- Accepts a notification within the caller's transaction, as pacer.enqueue does, and never raises an error for what is
-- wrong with it: so the transaction can go on. faults tells what is wrong, differs which fields differ from the
-- notification that was accepted under its id; both are empty when it is accepted, now or (repeated) before.
-- +goose StatementBegin
CREATE FUNCTION pacer.try_enqueue(notification jsonb, OUT id text, OUT repeated boolean, OUT faults text[], OUT differs text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    n CONSTANT jsonb := pacer.given(notification);
    own CONSTANT text := coalesce(n ->> 'channel', 'webhook');
    new_priority int;
    first pacer.notifications;
BEGIN
    try_enqueue.faults := pacer.faults(n);
    try_enqueue.repeated := false;
    try_enqueue.differs := '{}';
    IF try_enqueue.faults <> '{}' THEN RETURN; END IF;
    try_enqueue.id := coalesce(n ->> 'id', pacer.uuid7()::text);
    new_priority := array_position(ARRAY['critical', 'high', 'normal', 'low'], coalesce(n ->> 'priority', 'normal'));
    PERFORM set_config('pacer.outbox', 'unchecked', true);
    INSERT INTO pacer.notifications
        (id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key,
        group_key, override)
    VALUES (try_enqueue.id, n ->> 'user_id', coalesce(n ->> 'category', 'default'), own,
        coalesce(n ->> 'to', ''), coalesce(n ->> 'title', ''), coalesce(n ->> 'body', ''), (n -> 'data')::json,
        new_priority, (n ->> 'send_at')::timestamptz, (n ->> 'expires_at')::timestamptz, coalesce(n ->> 'collapse_key', ''),
        coalesce(n ->> 'group_key', ''), (n -> own)::json)
    ON CONFLICT (id) DO NOTHING;
    try_enqueue.repeated := NOT FOUND;
    PERFORM set_config('pacer.outbox', '', true);
    IF NOT try_enqueue.repeated THEN RETURN; END IF;
    SELECT * INTO first FROM pacer.notifications f WHERE f.id = try_enqueue.id;
    IF NOT FOUND THEN RETURN; END IF; -- it was purged at this moment
    try_enqueue.differs := ARRAY (SELECT field FROM (VALUES
        (1, 'user_id', first.user_id = n ->> 'user_id'),
        (2, 'category', first.category = coalesce(n ->> 'category', 'default')),
        (3, 'channel', first.channel = own),
        (4, 'to', first.target = coalesce(n ->> 'to', '')),
        (5, 'title', first.title = coalesce(n ->> 'title', '')),
        (6, 'body', first.body = coalesce(n ->> 'body', '')),
        (7, 'data', pacer.same_json(first.data, n -> 'data')),
        (8, own, first.channel <> own OR pacer.same_json(first.override, n -> own)),
        (9, 'priority', first.priority = new_priority),
        (10, 'send_at', pacer.same_time(first.send_at, (n ->> 'send_at')::timestamptz)),
        (11, 'expires_at', pacer.same_time(first.expires_at, (n ->> 'expires_at')::timestamptz)),
        (12, 'collapse_key', first.collapse_key = coalesce(n ->> 'collapse_key', '')),
        (13, 'group_key', first.group_key = coalesce(n ->> 'group_key', ''))) AS f(place, field, same)
        WHERE NOT same ORDER BY place);
END
$$;
-- +goose StatementEnd

-- Accepts a notification, in the form that the API takes, if and only if the caller's transaction commits, and gives its
-- id. The same id twice is one notification. What is wrong with it is an error with the code 22023, an id that was
-- accepted with other content one with 23505; pacer.try_enqueue tells the same without an error.
-- +goose StatementBegin
CREATE FUNCTION pacer.enqueue(notification jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result CONSTANT record := pacer.try_enqueue(notification);
BEGIN
    IF result.faults <> '{}' THEN
        RAISE EXCEPTION 'pacer.enqueue: %', array_to_string(result.faults, '; ') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF result.differs <> '{}' THEN
        RAISE EXCEPTION 'pacer.enqueue: id: "%" was accepted before with other content; what differs: %', result.id,
            array_to_string(result.differs, ', ')
            USING ERRCODE = 'unique_violation', HINT = 'Repeat it unchanged, or use another id.';
    END IF;
    RETURN result.id;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP SCHEMA pacer CASCADE;
