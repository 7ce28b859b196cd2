package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/store/transfer"
)

// Export implements [transfer.Source]. Nothing may work on the partitions meanwhile.
func (r *Store) Export(ctx context.Context, give func(*transfer.Batch) error) error {
	for _, part := range []struct {
		kind string
		read func(context.Context, redis.UniversalClient, []string) (*transfer.Batch, error)
	}{
		{"n:", r.exportNotifications},
		{"o:", r.exportDeliveries},
		{"dev:", r.exportDevices},
		{"k:", r.exportKeys},
		{"l:", r.exportAdmissions},
		{"u:", r.exportAdmissions},
	} {
		if err := r.agendas.EachKey(ctx, part.kind, func(ctx context.Context, node redis.UniversalClient,
			keys []string,
		) error {
			batch, err := part.read(ctx, node, keys)
			if err != nil {
				return err
			}
			return give(batch)
		}); err != nil {
			return err
		}
	}
	return nil
}

// nameOf is what a key says of a partition, after the kind.
func nameOf(key string) string {
	_, name, _ := strings.Cut(key, "}:")
	_, name, _ = strings.Cut(name, ":")
	return name
}

// readHashes reads hashes of one server.
func readHashes(ctx context.Context, node redis.UniversalClient, keys []string) ([]map[string]string, error) {
	pipe := node.Pipeline()
	read := make([]*redis.MapStringStringCmd, len(keys))
	for i, key := range keys {
		read[i] = pipe.HGetAll(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read %d keys: %w", len(keys), err)
	}
	hashes := make([]map[string]string, len(keys))
	for i := range keys {
		hashes[i] = read[i].Val()
	}
	return hashes, nil
}

// exported are the statuses in Postgres by the letters of the scripts. What is being sent comes back when its lease
// ends.
var exported = map[string]string{
	"t": "waiting", "q": "waiting", "r": "retrying", "s": "retrying", "D": "delivered", "F": "failed", "E": "expired",
	"C": "cancelled", "R": "replaced",
}

func (r *Store) exportNotifications(ctx context.Context, node redis.UniversalClient,
	keys []string,
) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, node, keys)
	if err != nil {
		return nil, err
	}
	due, err := readDue(ctx, node, keys, hashes)
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, fields := range hashes {
		status := exported[fields["s"]]
		if status == "" || fields["b"] == "" { // forgotten in between
			continue
		}
		n, err := exportedOf(nameOf(keys[i]), status, fields)
		if err != nil {
			return nil, err
		}
		n.NotBefore = due[i]
		if n.Status == "retrying" && n.NotBefore.IsZero() {
			n.NotBefore = time.Now()
		}
		batch.Notifications = append(batch.Notifications, n)
	}
	return batch, nil
}

// readDue gives when each is due that waits after a failure, or whose lease ends.
func readDue(ctx context.Context, node redis.UniversalClient, keys []string,
	hashes []map[string]string,
) ([]time.Time, error) {
	pipe := node.Pipeline()
	scores := make([][]*redis.FloatCmd, len(keys))
	for i, fields := range hashes {
		prefix, _, _ := strings.Cut(keys[i], "}:")
		var places []string
		switch fields["s"] {
		case "r":
			places = []string{"}:r:" + fields["u"], "}:r:" + fields["c"] + ":" + fields["u"]} // an older version kept them by category
		case "s":
			places = []string{"}:e"}
		}
		for _, place := range places {
			scores[i] = append(scores[i], pipe.ZScore(ctx, prefix+place, nameOf(keys[i])))
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own answer
	due := make([]time.Time, len(keys))
	for i := range keys {
		for _, score := range scores[i] {
			switch {
			case score.Err() == redis.Nil: //nolint:errorlint // a command's own answer
			case score.Err() != nil:
				return nil, fmt.Errorf("read when notification %s is due: %w", nameOf(keys[i]), score.Err())
			default:
				due[i] = time.UnixMicro(int64(score.Val()))
			}
		}
	}
	return due, nil
}

func exportedOf(id, status string, fields map[string]string) (transfer.Notification, error) {
	integer := func(name string) int { n, _ := strconv.Atoi(fields[name]); return n } // absent means 0
	box := dispatch.Backlog{UserID: fields["u"], Category: fields["c"]}
	content, err := decode(id, box, arrivalTime(fields["v"]), fields["b"])
	if err != nil {
		return transfer.Notification{}, err
	}
	n := transfer.Notification{
		Notification: *content, Status: status, Reason: fields["y"], Generation: integer("g"),
		Attempts: integer("g") - integer("o"),
		Failures: integer("f"), Crashes: integer("x"), Deferrals: integer("d"), History: fields["h"],
		AdmittedAt: int64(integer("m")),
	}
	if ended := integer("z"); ended > 0 {
		n.EndedAt = time.UnixMicro(int64(ended))
	}
	return n, nil
}

// arrivalTime reads an arrival: µs since the year 2020.
func arrivalTime(text string) time.Time {
	const year2020 = 1577836800000000
	n, _ := strconv.ParseInt(text, 10, 64) // the scripts write nothing else
	return time.UnixMicro(n + year2020)
}

func (r *Store) exportDeliveries(ctx context.Context, node redis.UniversalClient,
	keys []string,
) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, node, keys)
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, fields := range hashes {
		for _, text := range fields {
			d := transfer.Delivery{NotificationID: nameOf(keys[i])}
			if err := json.Unmarshal([]byte(text), &d.Delivery); err != nil {
				return nil, fmt.Errorf("read a delivery of notification %s: %w", d.NotificationID, err)
			}
			batch.Deliveries = append(batch.Deliveries, d)
		}
	}
	return batch, nil
}

func (r *Store) exportDevices(ctx context.Context, node redis.UniversalClient,
	keys []string,
) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, node, keys)
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, fields := range hashes {
		for id, text := range fields {
			var stored storedDevice
			if err := json.Unmarshal([]byte(text), &stored); err != nil {
				return nil, fmt.Errorf("read a device: %w", err)
			}
			batch.Devices = append(batch.Devices, stored.device(nameOf(keys[i]), id))
		}
	}
	return batch, nil
}

func (r *Store) exportKeys(ctx context.Context, node redis.UniversalClient, keys []string) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, node, keys)
	if err != nil {
		return nil, err
	}
	pipe := node.Pipeline()
	lives := make([]*redis.DurationCmd, len(keys))
	for i, key := range keys {
		lives[i] = pipe.PTTL(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the lives of %d idempotency keys: %w", len(keys), err)
	}
	batch := &transfer.Batch{}
	for i, fields := range hashes {
		if fields["i"] == "" || lives[i].Val() <= 0 {
			continue
		}
		k := transfer.Key{
			Key: nameOf(keys[i]), Fingerprint: fields["f"], NotificationID: fields["i"],
			ExpiresAt: time.Now().Add(lives[i].Val()),
		}
		if until, err := strconv.ParseInt(fields["p"], 10, 64); err == nil {
			k.AcceptingUntil = time.UnixMicro(until)
		}
		batch.Keys = append(batch.Keys, k)
	}
	return batch, nil
}

// exportAdmissions reads logs: of categories, whose names say category and user, or of users' caps.
func (r *Store) exportAdmissions(ctx context.Context, node redis.UniversalClient,
	keys []string,
) (*transfer.Batch, error) {
	pipe := node.Pipeline()
	logs := make([]*redis.ZSliceCmd, len(keys))
	for i, key := range keys {
		logs[i] = pipe.ZRangeWithScores(ctx, key, 0, -1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read %d windows: %w", len(keys), err)
	}
	batch := &transfer.Batch{}
	for i, key := range keys {
		user, category := nameOf(key), ""
		if strings.Contains(key, "}:l:") {
			category, user, _ = strings.Cut(user, ":")
		}
		for _, entry := range logs[i].Val() {
			token, _ := entry.Member.(string)
			batch.Admissions = append(batch.Admissions, admissionOf(user, category, token, int64(entry.Score)))
		}
	}
	return batch, nil
}

// admissionOf reads the token of an admission: the notification's id, or in earlier versions its arrival, and the
// generation.
func admissionOf(user, category, token string, at int64) transfer.Admission {
	a := transfer.Admission{UserID: user, Category: category, At: at}
	cut := strings.LastIndex(token, "#")
	if cut < 0 {
		return a
	}
	a.Generation, _ = strconv.Atoi(token[cut+1:]) // a window's own token has none
	a.ID = token[:cut]
	if _, err := strconv.ParseInt(a.ID, 10, 64); err == nil {
		a.AcceptedAt = arrivalTime(a.ID)
	}
	return a
}
