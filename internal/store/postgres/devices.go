package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
)

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
func (s *Store) PutDevice(ctx context.Context, d *notification.Device) error {
	var kept notification.Device
	err := s.changes.Query(ctx, putDeviceSQL, func(rows pgx.Rows) (err error) {
		kept, err = pgx.CollectExactlyOneRow(rows, scanDevice)
		return err
	}, d.UserID, d.ID, string(d.Channel), d.Target, notification.MaxDevices)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return notification.ErrTooManyDevices
	case err != nil:
		return describe("register device "+d.ID, err)
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
	d.Channel, d.DeactivatedAt = notification.Channel(channel), moment(deactivated)
	return d, err
}

// Device implements devices.Store.
func (s *Store) Device(ctx context.Context, userID, id string) (*notification.Device, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+deviceColumns+" FROM pacer.devices WHERE user_id = $1 AND device_id = $2",
		userID, id)
	if err != nil {
		return nil, describe("look up a device", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDevice)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, notification.ErrNoDevice
	case err != nil:
		return nil, describe("look up a device", err)
	}
	return &d, nil
}

// DeleteDevice implements devices.Store.
func (s *Store) DeleteDevice(ctx context.Context, userID, id string) error {
	if _, err := s.changes.Exec(ctx, "DELETE FROM pacer.devices WHERE user_id = $1 AND device_id = $2", userID,
		id); err != nil {
		return describe("remove device "+id, err)
	}
	return nil
}

// Devices implements devices.Store.
func (s *Store) Devices(ctx context.Context, userID string) ([]notification.Device, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+deviceColumns+" FROM pacer.devices WHERE user_id = $1 ORDER BY device_id",
		userID)
	if err != nil {
		return nil, describe("list a user's devices", err)
	}
	devices, err := pgx.CollectRows(rows, scanDevice)
	if err != nil {
		return nil, describe("list a user's devices", err)
	}
	return devices, nil
}

// Deactivate implements devices.Store.
func (s *Store) Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error {
	_, err := s.db.Exec(ctx, `UPDATE pacer.devices SET active = false, reason = $4, deactivated_at = clock_timestamp()
		WHERE user_id = $1 AND device_id = $2 AND target = $3 AND active
			AND ($5::timestamptz IS NULL OR updated_at <= $5)`,
		d.UserID, d.ID, d.Target, storable(reason), timestamp(since))
	if err != nil {
		return describe("deactivate a device", err)
	}
	return nil
}

// Deliveries implements devices.Store.
func (s *Store) Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error) {
	rows, err := s.pool.Query(ctx, `SELECT device_id, attempts, ended, outcome, updated_at, reply FROM pacer.deliveries
		WHERE notification_id = $1 ORDER BY device_id`, n.ID)
	if err != nil {
		return nil, describe("list the deliveries of notification "+n.ID, err)
	}
	deliveries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[notification.Delivery])
	if err != nil {
		return nil, describe("list the deliveries of notification "+n.ID, err)
	}
	return deliveries, nil
}

// NoteDelivery implements devices.Store.
func (s *Store) NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error {
	_, err := s.db.Exec(ctx,
		`INSERT INTO pacer.deliveries (notification_id, device_id, attempts, ended, outcome, reply)
			VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (notification_id, device_id) DO UPDATE SET attempts = excluded.attempts, ended = excluded.ended,
			outcome = excluded.outcome, reply = excluded.reply, updated_at = clock_timestamp()`,
		n.ID, d.DeviceID, d.Attempts, d.Ended, storable(d.Outcome), storable(d.Reply))
	if err != nil {
		return describe("note a delivery of notification "+n.ID, err)
	}
	return nil
}
