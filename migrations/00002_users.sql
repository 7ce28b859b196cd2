-- What users want, and the devices they have.

-- +goose Up
CREATE TABLE pacer.preferences (
    user_id            text COLLATE "C" PRIMARY KEY,
    opt_out_categories text[] NOT NULL DEFAULT '{}',
    opt_out_channels   text[] NOT NULL DEFAULT '{}',
    -- limits by category, in the form of the policy file; they replace the category's own.
    limits             jsonb NOT NULL DEFAULT '{}',
    time_zone          text NOT NULL DEFAULT '',
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX preferences_updated ON pacer.preferences (updated_at);

CREATE TABLE pacer.devices (
    user_id    text COLLATE "C" NOT NULL,
    device_id  text COLLATE "C" NOT NULL,
    channel    text COLLATE "C" NOT NULL,
    target     text NOT NULL,
    active     boolean NOT NULL DEFAULT true,
    reason     text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_id, device_id)
);

-- +goose Down
DROP TABLE pacer.devices;
DROP TABLE pacer.preferences;
