-- The order of notifications is a number, and when they came a time. What is compared with the limiter's clock is of that
-- clock.

-- +goose Up

-- An arrival only orders: what is accepted after another's commit has a higher one, whatever the clock says. Each value
-- stands for itself and the 99 numbers behind it, so that a statement takes few; arrivals have gaps. A value is taken
-- when it is needed, never kept by a session. Redis has room for numbers below 2^51.
CREATE SEQUENCE pacer.arrivals INCREMENT 100 MINVALUE 100 MAXVALUE 2251799813685100;

ALTER TABLE pacer.notifications ADD COLUMN arrival bigint NOT NULL DEFAULT 0;
UPDATE pacer.notifications n SET arrival = o.arrival
FROM (SELECT id, row_number() OVER (ORDER BY accepted_at, id) AS arrival FROM pacer.notifications) o WHERE n.id = o.id;
SELECT setval('pacer.arrivals', (SELECT max(arrival) / 100 * 100 + 100 FROM pacer.notifications HAVING count(*) > 0));
ALTER TABLE pacer.notifications ALTER COLUMN arrival SET DEFAULT nextval('pacer.arrivals');

DROP INDEX pacer.notifications_newest;
CREATE INDEX notifications_newest ON pacer.notifications (user_id, category, collapse_key, arrival) WHERE collapse_key <> '';

-- The moment of a retry is in µs on the limiter's clock, as that of an admission is. A timestamptz is of Postgres's clock.
ALTER TABLE pacer.notifications ALTER COLUMN not_before TYPE bigint USING (extract(epoch FROM not_before) * 1000000)::bigint;

-- +goose Down
ALTER TABLE pacer.notifications ALTER COLUMN not_before TYPE timestamptz
    USING 'epoch'::timestamptz + not_before * interval '1 microsecond';
DROP INDEX pacer.notifications_newest;
CREATE INDEX notifications_newest ON pacer.notifications (user_id, category, collapse_key, accepted_at) WHERE collapse_key <> '';
ALTER TABLE pacer.notifications DROP COLUMN arrival;
DROP SEQUENCE pacer.arrivals;
