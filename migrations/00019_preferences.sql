-- Users' quiet hours, and the order in which preferences change.
--
-- Every process follows the changes. They get numbers, and whoever writes one holds a lock until the transaction has
-- ended: so a number is never seen before a smaller one, and whoever reads needs nothing twice.

-- +goose Up
CREATE SEQUENCE pacer.preferences_changes;
ALTER TABLE pacer.preferences
    -- quiet_hours: {"window": NAME}, {"closed": […]}, {"open": […]} or {"off": true}; null: those of the policy.
    ADD COLUMN quiet_hours jsonb,
    ADD COLUMN quiet_until timestamptz,
    ADD COLUMN change bigint NOT NULL DEFAULT nextval('pacer.preferences_changes');
DROP INDEX pacer.preferences_updated;
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

-- +goose Down
DROP TRIGGER number_preferences ON pacer.preferences;
DROP TRIGGER order_preferences ON pacer.preferences;
DROP FUNCTION pacer.number_preferences();
DROP FUNCTION pacer.order_preferences();
ALTER TABLE pacer.preferences DROP COLUMN quiet_hours, DROP COLUMN quiet_until, DROP COLUMN change;
DROP SEQUENCE pacer.preferences_changes;
CREATE INDEX preferences_updated ON pacer.preferences (updated_at);
