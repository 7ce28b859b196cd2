package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/script"
)

// keepDeliveries is how long the deliveries of a notification are kept after the latest one. It is longer than a
// notification is retried.
const keepDeliveries = 30 * 24 * time.Hour

// registerScript writes a device, unless it is new and the user has the most devices already.
//
//	KEYS[1]  the user's devices
//	ARGV[1]  id
//	ARGV[2]  the device as JSON
//	ARGV[3]  how many devices a user may have
//	Result   1 when it was written, else 0
var registerScript = script.New(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1`)

// replaceScript writes a device if it is still as it was read. It deactivates one, so it runs on a full Redis too.
//
//	KEYS[1]  the user's devices
//	KEYS[2]  the events of the partition
//	ARGV[1]  id
//	ARGV[2]  the device as it was read
//	ARGV[3]  the device as it shall be
//	ARGV[4]  the event that tells so; '' when nobody wants it
//	Result   1 when it was written, else 0
var replaceScript = script.NewWhenFull(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
if ARGV[4] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[4]) end
return 1`)

// noteScript notes what became of a notification on one device. It finishes an attempt, so it runs on a full Redis too:
// what is not noted is sent again.
//
//	KEYS[1]  what became of the notification, by device
//	ARGV[1]  id of the device
//	ARGV[2]  the delivery as JSON
//	ARGV[3]  how long all of them are kept from now on, in ms
//	Result   1
var noteScript = script.NewWhenFull(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`)

// devices keeps the devices of users, and what became of notifications on them.
type devices struct {
	client  redis.UniversalClient
	agendas *agenda.Agendas
}

// devicesKey is the hash of a user's devices, by id.
func (s *devices) devicesKey(userID string) string {
	return keyspace.Prefix(s.agendas.PartitionOf(userID)) + "dev:" + userID
}

// deliveriesKey is the hash of what became of a notification, by device.
func (s *devices) deliveriesKey(n *notification.Notification) string {
	return keyspace.Prefix(s.agendas.PartitionOf(n.UserID)) + "o:" + n.ID
}

// PutDevice implements devices.Store.
func (s *devices) PutDevice(ctx context.Context, d *notification.Device) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	created := now
	switch before, err := s.Device(ctx, d.UserID, d.ID); {
	case err == nil:
		created = before.CreatedAt
	case !errors.Is(err, notification.ErrNoDevice):
		return err
	}
	kept := notification.Device{
		UserID: d.UserID, ID: d.ID, Channel: d.Channel, Target: d.Target, Active: true, CreatedAt: created,
		UpdatedAt: now,
	}
	text, err := json.Marshal(&kept)
	if err != nil {
		return fmt.Errorf("encode a device: %w", err)
	}
	written, err := registerScript.Run(ctx, s.client, []string{s.devicesKey(d.UserID)}, d.ID, text,
		notification.MaxDevices).Bool()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return fmt.Errorf("register a device: %w", err)
	case !written:
		return notification.ErrTooManyDevices
	}
	*d = kept
	return nil
}

// deviceOf reads a device in its user's hash.
func deviceOf(userID, id string, text []byte) (notification.Device, error) {
	d := notification.Device{UserID: userID, ID: id}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("read a device: %w", err)
	}
	return d, nil
}

// Device implements devices.Store.
func (s *devices) Device(ctx context.Context, userID, id string) (*notification.Device, error) {
	text, err := s.client.HGet(ctx, s.devicesKey(userID), id).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, notification.ErrNoDevice
	case err != nil:
		return nil, fmt.Errorf("look up a device: %w", err)
	}
	d, err := deviceOf(userID, id, text)
	return &d, err
}

// DeleteDevice implements devices.Store.
func (s *devices) DeleteDevice(ctx context.Context, userID, id string) error {
	if err := s.client.HDel(ctx, s.devicesKey(userID), id).Err(); err != nil {
		return fmt.Errorf("remove a device: %w", err)
	}
	return nil
}

// Devices implements devices.Store.
func (s *devices) Devices(ctx context.Context, userID string) ([]notification.Device, error) {
	all, err := s.client.HGetAll(ctx, s.devicesKey(userID)).Result()
	if err != nil {
		return nil, fmt.Errorf("list a user's devices: %w", err)
	}
	devices := make([]notification.Device, 0, len(all))
	for id, text := range all {
		d, err := deviceOf(userID, id, []byte(text))
		if err != nil {
			return nil, err
		}
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(x, y notification.Device) int { return cmp.Compare(x.ID, y.ID) })
	return devices, nil
}

// EachWithDevices calls do, with some at a time, for the users who have devices.
func (s *devices) EachWithDevices(ctx context.Context, do func(userIDs []string) error) error {
	return maintenance.Of(s.agendas).EachKey(ctx, "dev:", func(_ redis.UniversalClient, keys []string) error {
		users := make([]string, len(keys))
		for i, key := range keys {
			_, users[i], _ = strings.Cut(key, "}:dev:")
		}
		return do(users)
	})
}

// Deactivate implements devices.Store.
func (s *devices) Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error {
	key := s.devicesKey(d.UserID)
	before, err := s.client.HGet(ctx, key, d.ID).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return fmt.Errorf("deactivate a device: %w", err)
	}
	stored, err := deviceOf(d.UserID, d.ID, []byte(before))
	if err != nil {
		return err
	}
	if !stored.Active || stored.Target != d.Target || !since.IsZero() && stored.UpdatedAt.After(since) {
		return nil
	}
	stored.Active, stored.Reason, stored.DeactivatedAt = false, reason, time.Now().UTC().Truncate(time.Microsecond)
	after, err := json.Marshal(&stored)
	if err != nil {
		return fmt.Errorf("encode a device: %w", err)
	}
	event := ""
	if s.agendas.Events.Wants(events.DeviceDeactivated) {
		event = agenda.DeviceEvent(d.UserID, d.ID, reason, stored.DeactivatedAt)
	}
	// A device that was registered again meanwhile stays as it is.
	keys := []string{key, s.agendas.Events.Key(d.UserID)}
	if err := replaceScript.Run(ctx, s.client, keys, d.ID, before, after, event).Err(); err != nil &&
		!errors.Is(err, redis.Nil) {
		return fmt.Errorf("deactivate a device: %w", err)
	}
	return nil
}

// Deliveries implements devices.Store.
func (s *devices) Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error) {
	all, err := s.client.HGetAll(ctx, s.deliveriesKey(n)).Result()
	if err != nil {
		return nil, fmt.Errorf("list the deliveries of notification %s: %w", n.ID, err)
	}
	deliveries := make([]notification.Delivery, 0, len(all))
	for _, text := range all {
		var d notification.Delivery
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return nil, fmt.Errorf("read a delivery of notification %s: %w", n.ID, err)
		}
		deliveries = append(deliveries, d)
	}
	slices.SortFunc(deliveries, func(x, y notification.Delivery) int { return cmp.Compare(x.DeviceID, y.DeviceID) })
	return deliveries, nil
}

// NoteDelivery implements devices.Store.
func (s *devices) NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error {
	d.At = time.Now().UTC().Truncate(time.Microsecond)
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode a delivery: %w", err)
	}
	if err := noteScript.Run(ctx, s.client, []string{s.deliveriesKey(n)}, d.DeviceID, text,
		strconv.FormatInt(keepDeliveries.Milliseconds(), 10)).Err(); err != nil {
		return fmt.Errorf("note a delivery of notification %s: %w", n.ID, err)
	}
	return nil
}
