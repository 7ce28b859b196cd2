package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// devicesTable is the part of the store that keeps users' devices, and what became of notifications on them.
type devicesTable struct{ stores *seam.Stores }

// deviceColumns are what scanDevice reads.
const deviceColumns = `user_id, device_id, channel, target, active, reason, created_at, updated_at, deactivated_at`

// putDeviceSQL registers a device, unless it is new and the user has the most devices already.
const putDeviceSQL = `
INSERT INTO pacer.devices (user_id, device_id, channel, target)
SELECT $1, $2, $3, $4 WHERE (SELECT count(*) FROM pacer.devices WHERE user_id = $1 AND device_id <> $2) < $5
ON CONFLICT (user_id, device_id) DO UPDATE SET channel = excluded.channel, target = excluded.target,
	active = true, reason = '', deactivated_at = NULL, updated_at = clock_timestamp()
RETURNING ` + deviceColumns

// PutDevice implements devices.Store.
func (t *devicesTable) PutDevice(ctx context.Context, d *notification.Device) error {
	var kept notification.Device
	err := t.stores.Changes.Query(ctx, putDeviceSQL, func(rows pgx.Rows) (err error) {
		kept, err = pgx.CollectExactlyOneRow(rows, scanDevice)
		return err
	}, d.UserID, d.ID, string(d.Channel), d.Target, notification.MaxDevices)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return notification.ErrTooManyDevices
	case err != nil:
		return limited.Describe("register device "+d.ID, err)
	}
	*d = kept
	return nil
}

// scanDevice reads a device from its row.
func scanDevice(row pgx.CollectableRow) (notification.Device, error) {
	var d notification.Device
	var channel string
	var deactivated *time.Time
	err := row.Scan(&d.UserID, &d.ID, &channel, &d.Target, &d.Active, &d.Reason, &d.CreatedAt, &d.UpdatedAt,
		&deactivated)
	d.Channel, d.DeactivatedAt = notification.Channel(channel), columns.Moment(deactivated)
	return d, err
}

// Device implements devices.Store.
func (t *devicesTable) Device(ctx context.Context, userID, id string) (*notification.Device, error) {
	rows, err := t.stores.Pool.Query(ctx, "SELECT "+deviceColumns+" FROM pacer.devices WHERE user_id = $1 AND device_id = $2",
		userID, id)
	if err != nil {
		return nil, limited.Describe("look up a device", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDevice)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, notification.ErrNoDevice
	case err != nil:
		return nil, limited.Describe("look up a device", err)
	}
	return &d, nil
}

// DeleteDevice implements devices.Store.
func (t *devicesTable) DeleteDevice(ctx context.Context, userID, id string) error {
	if _, err := t.stores.Changes.Exec(ctx, "DELETE FROM pacer.devices WHERE user_id = $1 AND device_id = $2", userID,
		id); err != nil {
		return limited.Describe("remove device "+id, err)
	}
	return nil
}

// Devices implements devices.Store.
func (t *devicesTable) Devices(ctx context.Context, userID string) ([]notification.Device, error) {
	rows, err := t.stores.Pool.Query(ctx, "SELECT "+deviceColumns+" FROM pacer.devices WHERE user_id = $1 ORDER BY device_id",
		userID)
	if err != nil {
		return nil, limited.Describe("list a user's devices", err)
	}
	devices, err := pgx.CollectRows(rows, scanDevice)
	if err != nil {
		return nil, limited.Describe("list a user's devices", err)
	}
	return devices, nil
}

// Deactivate implements devices.Store.
func (t *devicesTable) Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error {
	_, err := t.stores.DB.Exec(ctx, `WITH gone AS (
		UPDATE pacer.devices SET active = false, reason = $4, deactivated_at = clock_timestamp()
		WHERE user_id = $1 AND device_id = $2 AND target = $3 AND active
			AND ($5::timestamptz IS NULL OR updated_at <= $5)
		RETURNING *
	)
	INSERT INTO pacer.happened (at, type, device_id, user_id, reason)
	SELECT deactivated_at, 'device.deactivated', device_id, user_id, reason FROM gone
	WHERE 'device.deactivated' = ANY (pacer.wanted_events())`,
		d.UserID, d.ID, d.Target, columns.Storable(reason), columns.Timestamp(since))
	if err != nil {
		return limited.Describe("deactivate a device", err)
	}
	return nil
}

// Deliveries implements devices.Store.
func (t *devicesTable) Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error) {
	rows, err := t.stores.Pool.Query(ctx, `SELECT device_id, attempts, ended, outcome, updated_at, reply FROM pacer.deliveries
		WHERE notification_id = $1 ORDER BY device_id`, n.ID)
	if err != nil {
		return nil, limited.Describe("list the deliveries of notification "+n.ID, err)
	}
	deliveries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[notification.Delivery])
	if err != nil {
		return nil, limited.Describe("list the deliveries of notification "+n.ID, err)
	}
	return deliveries, nil
}

// NoteDelivery implements devices.Store.
func (t *devicesTable) NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error {
	_, err := t.stores.DB.Exec(ctx,
		`INSERT INTO pacer.deliveries (notification_id, device_id, attempts, ended, outcome, reply)
			VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (notification_id, device_id) DO UPDATE SET attempts = excluded.attempts, ended = excluded.ended,
			outcome = excluded.outcome, reply = excluded.reply, updated_at = clock_timestamp()`,
		n.ID, d.DeviceID, d.Attempts, d.Ended, columns.Storable(d.Outcome), columns.Storable(d.Reply))
	if err != nil {
		return limited.Describe("note a delivery of notification "+n.ID, err)
	}
	return nil
}
