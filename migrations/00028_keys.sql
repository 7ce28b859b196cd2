-- An idempotency key is two columns of its notification.

-- +goose Up

-- The key belongs to the notification until it has ended, and for 24 hours after its acceptance; fingerprint tells
-- requests with one key apart. Both are NULL without a key, and when it is free again.
ALTER TABLE pacer.notifications ADD COLUMN idempotency_key text COLLATE "C", ADD COLUMN fingerprint text COLLATE "C";

UPDATE pacer.notifications n SET idempotency_key = k.key, fingerprint = k.fingerprint
FROM (SELECT DISTINCT ON (notification_id) * FROM pacer.idempotency_keys ORDER BY notification_id, key) k
WHERE n.id = k.notification_id;
DROP TABLE pacer.idempotency_keys;

CREATE UNIQUE INDEX notifications_key ON pacer.notifications (idempotency_key) WHERE idempotency_key IS NOT NULL;

-- +goose Down
CREATE TABLE pacer.idempotency_keys (
    key             text COLLATE "C" PRIMARY KEY,
    fingerprint     text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL,
    -- accepting_until is NULL once the notification has been accepted.
    accepting_until timestamptz,
    expires_at      timestamptz NOT NULL
);
CREATE INDEX idempotency_keys_expiry ON pacer.idempotency_keys (expires_at);
INSERT INTO pacer.idempotency_keys (key, fingerprint, notification_id, expires_at)
SELECT idempotency_key, fingerprint, id, accepted_at + interval '24 hours' FROM pacer.notifications
WHERE idempotency_key IS NOT NULL;
DROP INDEX pacer.notifications_key;
ALTER TABLE pacer.notifications DROP COLUMN fingerprint, DROP COLUMN idempotency_key;
