package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/store/transfer"
)

// Export implements [transfer.Source]. Nothing may work on the partitions meanwhile.
func (s *Store) Export(ctx context.Context, give func(*transfer.Batch) error) error {
	for _, part := range []struct {
		kind string
		read func(context.Context, page) (*transfer.Batch, error)
	}{
		{kind: "n:", read: exportNotifications},
		{kind: "o:", read: exportDeliveries},
		{kind: "dev:", read: exportDevices},
		// Logs of categories come first: the same admission in the log of a cap does not name its category.
		{kind: "l:", read: exportAdmissions},
		{kind: "cap:", read: exportAdmissions},
		{kind: "u:", read: exportAdmissions},
	} {
		read := func(ctx context.Context, node redis.UniversalClient, keys []string) error {
			batch, err := part.read(ctx, page{node, keys})
			if err != nil {
				return err
			}
			return give(batch)
		}
		if err := s.agendas.EachKey(ctx, part.kind, read); err != nil {
			return err
		}
	}
	return s.exportPreferences(ctx, give)
}

// page is some keys of one kind, on one server.
type page struct {
	node redis.UniversalClient
	keys []string
}

// readEach reads something of every key of a page, in one round trip.
func readEach[C redis.Cmder](ctx context.Context, p page, what string, read func(redis.Pipeliner, string) C,
) ([]C, error) {
	pipe := p.node.Pipeline()
	replies := make([]C, len(p.keys))
	for i, key := range p.keys {
		replies[i] = read(pipe, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read %s of %d keys: %w", what, len(p.keys), err)
	}
	return replies, nil
}

// readHashes reads the hashes of a page.
func readHashes(ctx context.Context, p page) ([]*redis.MapStringStringCmd, error) {
	return readEach(ctx, p, "the fields", func(pipe redis.Pipeliner, key string) *redis.MapStringStringCmd {
		return pipe.HGetAll(ctx, key)
	})
}

// nameOf is what a key names in its partition: what follows the partition and the kind.
func nameOf(key string) string {
	_, name, _ := strings.Cut(key, "}:")
	_, name, _ = strings.Cut(name, ":")
	return name
}

// exported are the statuses in Postgres by the letters of the scripts. A notification that is being sent comes again
// when its lease ends.
var exported = map[string]string{
	"t": "waiting", "q": "waiting", "r": "retrying", "s": "retrying", "D": "delivered", "F": "failed", "E": "expired",
	"C": "cancelled", "R": "replaced",
}

// exportNotifications reads notifications.
func exportNotifications(ctx context.Context, p page) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, p)
	if err != nil {
		return nil, err
	}
	due, err := readDue(ctx, p, hashes)
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, hash := range hashes {
		fields := hash.Val()
		status := exported[fields["s"]]
		if status == "" || fields["b"] == "" { // it was forgotten since the keys were listed
			continue
		}
		n, err := exportedOf(nameOf(p.keys[i]), status, fields)
		if err != nil {
			return nil, err
		}
		n.NotBefore = due[i]
		if fields["s"] == "q" {
			n.NotBefore = backedOff(fields)
		}
		if n.Status == "retrying" && n.NotBefore.IsZero() {
			n.NotBefore = time.Now()
		}
		batch.Notifications = append(batch.Notifications, n)
	}
	return batch, nil
}

// backedOff is when the back-off after the latest failure of a notification ended: max_defer counts from then on. It is
// zero when none failed.
func backedOff(fields map[string]string) time.Time {
	if micros, err := strconv.ParseInt(fields["n"], 10, 64); err == nil {
		return time.UnixMicro(micros)
	}
	return time.Time{}
}

// readDue reads when each retry is due, and when each lease ends.
func readDue(ctx context.Context, p page, hashes []*redis.MapStringStringCmd) ([]time.Time, error) {
	pipe := p.node.Pipeline()
	scores := make([][]*redis.FloatCmd, len(p.keys))
	for i, hash := range hashes {
		fields := hash.Val()
		prefix, _, _ := strings.Cut(p.keys[i], "}:")
		var sets []string
		switch fields["s"] {
		case "r":
			sets = []string{"}:r:" + fields["u"]}
		case "s":
			sets = []string{"}:e"}
		}
		for _, set := range sets {
			scores[i] = append(scores[i], pipe.ZScore(ctx, prefix+set, nameOf(p.keys[i])))
		}
	}
	_, _ = pipe.Exec(ctx) // each command has a reply of its own
	due := make([]time.Time, len(p.keys))
	for i := range p.keys {
		for _, score := range scores[i] {
			switch {
			case score.Err() == redis.Nil: //nolint:errorlint // the command's own reply
			case score.Err() != nil:
				return nil, fmt.Errorf("read when notification %s is due: %w", nameOf(p.keys[i]), score.Err())
			default:
				due[i] = time.UnixMicro(int64(score.Val()))
			}
		}
	}
	return due, nil
}

// exportedOf is a notification as its hash has it.
func exportedOf(id, status string, fields map[string]string) (transfer.Notification, error) {
	integer := func(name string) int { n, _ := strconv.Atoi(fields[name]); return n } // absent means 0
	backlog := dispatch.Backlog{UserID: fields["u"], Category: fields["c"]}
	content, err := decode(id, backlog, time.UnixMicro(int64(integer("A"))), fields["b"])
	if err != nil {
		return transfer.Notification{}, err
	}
	content.Arrival = int64(integer("v"))
	n := transfer.Notification{
		Notification: *content, Status: status, Reason: fields["y"],
		Detail:     agenda.Explain(fields["y"], fields["q"]),
		Generation: integer("g"), Attempts: integer("g") - integer("o"), Failures: integer("f"), Crashes: integer("x"),
		Deferrals: integer("d"), History: fields["h"], AdmittedAt: int64(integer("m")),
	}
	if ended := integer("z"); ended > 0 {
		n.EndedAt = time.UnixMicro(int64(ended))
		if intake.KeyIsOver(n.CreatedAt, true) { // its key may be another's by now
			n.IdempotencyKey, n.Fingerprint = "", ""
		}
	}
	return n, nil
}

// exportDeliveries reads what became of notifications on devices.
func exportDeliveries(ctx context.Context, p page) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, p)
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, hash := range hashes {
		for _, text := range hash.Val() {
			d := transfer.Delivery{NotificationID: nameOf(p.keys[i])}
			if err := json.Unmarshal([]byte(text), &d.Delivery); err != nil {
				return nil, fmt.Errorf("read a delivery of notification %s: %w", d.NotificationID, err)
			}
			batch.Deliveries = append(batch.Deliveries, d)
		}
	}
	return batch, nil
}

// exportDevices reads devices.
func exportDevices(ctx context.Context, p page) (*transfer.Batch, error) {
	hashes, err := readHashes(ctx, p)
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, hash := range hashes {
		for id, text := range hash.Val() {
			d, err := deviceOf(nameOf(p.keys[i]), id, []byte(text))
			if err != nil {
				return nil, err
			}
			batch.Devices = append(batch.Devices, d)
		}
	}
	return batch, nil
}

// exportAdmissions reads the logs of categories, of named caps, or of user caps.
func exportAdmissions(ctx context.Context, p page) (*transfer.Batch, error) {
	logs, err := readEach(ctx, p, "the windows", func(pipe redis.Pipeliner, key string) *redis.ZSliceCmd {
		return pipe.ZRangeWithScores(ctx, key, 0, -1)
	})
	if err != nil {
		return nil, err
	}
	batch := &transfer.Batch{}
	for i, key := range p.keys {
		log := logOf(key)
		for _, entry := range logs[i].Val() {
			token, _ := entry.Member.(string)
			batch.Admissions = append(batch.Admissions, admissionIn(log, token, int64(entry.Score)))
		}
	}
	return batch, nil
}

// logOf reads the key of a log: its user, and the category or the named cap that stands before the user.
func logOf(key string) (of transfer.Admission) {
	_, name, _ := strings.Cut(key, "}:")
	kind, name, _ := strings.Cut(name, ":")
	switch kind {
	case "l":
		of.Category, of.UserID, _ = strings.Cut(name, ":")
	case "cap":
		of.Cap, of.UserID, _ = strings.Cut(name, ":")
	default:
		of.UserID = name
	}
	return of
}

// admissionIn reads an admission in a log from its token: the notification's id and the generation. Where a later
// notification had the same id, the whole token stands for the notification.
func admissionIn(log transfer.Admission, token string, at int64) transfer.Admission {
	a := log
	a.At = at
	cut := strings.LastIndex(token, "#")
	if cut < 0 {
		return a
	}
	if strings.Contains(token[cut:], "/") {
		a.ID = token
		return a
	}
	a.Generation, _ = strconv.Atoi(token[cut+1:]) // a window's own token has none
	a.ID = token[:cut]
	return a
}

// exportPreferences hands over what users want.
func (s *Store) exportPreferences(ctx context.Context, give func(*transfer.Batch) error) error {
	from, limit := make([]int64, s.PreferencesParts()), exportPage
	for more := true; more; {
		more = false
		for part, page := range s.ChangedPreferences(ctx, from, limit) {
			if page.Err != nil {
				return page.Err
			}
			batch := &transfer.Batch{}
			for _, c := range page.Changes {
				if c.Version > from[part] && c.UserID != "" {
					batch.Preferences = append(batch.Preferences, c)
				}
				from[part] = c.Version
			}
			more = more || len(page.Changes) == limit
			if err := give(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// exportPage is how many users' preferences of each partition are read at a time.
const exportPage = 200
