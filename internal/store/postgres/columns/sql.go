package columns

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// PlaceSQL is the priority that counts in the agenda of a notification: that of [notification.Released], or its own.
const PlaceSQL = "CASE WHEN released THEN 0 ELSE priority END"

// OptedOutSQL is true for a notification n whose user has opted out of its category or channel.
const OptedOutSQL = `EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[n.user_id])
	AND (n.category = ANY (p.opt_out_categories) OR n.channel = ANY (p.opt_out_channels)))`

// UncheckedSQL is true for a notification n that came through pacer.enqueue, as long as no process has allowed it: it
// is in no backlog, and replaces nothing. See also SupersededSQL.
const UncheckedSQL = "EXISTS (SELECT FROM pacer.outbox o WHERE o.key = ANY (ARRAY[n.id]) AND o.unchecked)"

// SupersededSQL is true for a notification n when a newer one with its collapse key was accepted, whatever became of
// the newer one. Redis usually ends the older one sooner, but it forgets collapse keys: after an hour on purpose, and
// at once when it loses its data. One that nobody has checked replaces nothing.
const SupersededSQL = `(n.collapse_key <> '' AND EXISTS (SELECT FROM pacer.notifications newer
	WHERE newer.user_id = ANY (ARRAY[n.user_id]) AND newer.category = ANY (ARRAY[n.category])
		AND newer.collapse_key = ANY (ARRAY[n.collapse_key]) AND newer.collapse_key <> ''
		AND newer.arrival > n.arrival
		AND NOT EXISTS (SELECT FROM pacer.outbox o WHERE o.key = ANY (ARRAY[newer.id]) AND o.unchecked)))`

// CarrierSQL is until when the carrier of an item n of a digest may send it, for ever once that may have reached
// somebody; null when the item is in no digest any more: its carrier has ended, or has another claim.
const CarrierSQL = `(SELECT CASE WHEN c.status = 'sending' THEN c.claimed_until ELSE 'infinity' END
	FROM pacer.notifications c WHERE c.id = ANY (ARRAY[n.digest_id]) AND c.digest_id = c.id AND c.token = n.token
		AND c.status IN ('sending', 'waiting', 'retrying'))`

// LapsedSQL is true for a row n that was being sent when its lease ended, its own or that of its carrier.
const LapsedSQL = `n.status = 'sending' AND coalesce(n.claimed_until, ` + CarrierSQL + `, '-infinity') < clock_timestamp()`

// Token names a grant. When a claim is repeated because its result was lost, the token shows that it is the same claim.
func Token(g *dispatch.Grant) string {
	return fmt.Sprintf("%d.%d.%d", g.Epoch, g.Generation, g.AdmittedAt.UnixMicro())
}

// ReadToken returns what a token says of its grant; false for the empty token of a claim that was not made here.
func ReadToken(token string) (g dispatch.Grant, ok bool) {
	var at int64
	_, err := fmt.Sscanf(token, "%d.%d.%d", &g.Epoch, &g.Generation, &at)
	g.AdmittedAt = throttle.Micros(at).Time()
	return g, err == nil
}

// Storable makes a text from outside, such as a provider's reply, one that Postgres takes: valid UTF-8 without U+0000.
// What it can't keep it shows as U+FFFD. What producers send is not changed, but refused: see [intake.ErrUnstorable].
func Storable(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
