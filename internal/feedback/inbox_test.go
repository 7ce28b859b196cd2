package feedback_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/email"
)

// now is later than everything in the messages.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// world has one user with two devices with addresses, and what became of a notification to them.
type world struct {
	away        error
	view        notification.View
	devices     []notification.Device
	deliveries  []notification.Delivery
	deactivated map[string]time.Time
	optedOut    []string
}

func newWorld(id string) *world {
	w := &world{deactivated: map[string]time.Time{}}
	w.view.Notification = notification.Notification{ID: id, UserID: "ada", CreatedAt: now.Add(-time.Hour)}
	for device, target := range map[string]string{
		"mail": "Ada <Ada@Example.com>", "other": "other@example.com", "phone": "ada@example.com",
	} {
		d := notification.Device{UserID: "ada", ID: device, Channel: "email", Target: target, Active: true}
		if device == "phone" {
			d.Channel = "sms"
		}
		w.devices = append(w.devices, d)
		w.deliveries = append(w.deliveries, notification.Delivery{
			DeviceID: device, Attempts: 1, Outcome: "delivered", Ended: true,
		})
	}
	return w
}

func (w *world) View(_ context.Context, id string) (*notification.View, error) {
	if w.away == nil && id != w.view.ID {
		return nil, notification.ErrNotFound
	}
	return &w.view, w.away
}

func (w *world) Devices(context.Context, string) ([]notification.Device, error) {
	return slices.Clone(w.devices), w.away
}

func (w *world) Deactivate(_ context.Context, d *notification.Device, since time.Time, reason string) error {
	w.deactivated[d.ID+" "+reason] = since
	return w.away
}

func (w *world) Deliveries(context.Context, *notification.Notification) ([]notification.Delivery, error) {
	return slices.Clone(w.deliveries), w.away
}

func (w *world) NoteDelivery(_ context.Context, _ *notification.Notification, d notification.Delivery) error {
	for i := range w.deliveries {
		if w.deliveries[i].DeviceID == d.DeviceID {
			w.deliveries[i] = d
		}
	}
	return w.away
}

func (w *world) Preferences(context.Context, string) (*notification.Preferences, error) {
	return &notification.Preferences{OptOutCategories: w.optedOut}, w.away
}

func (w *world) OptOut(_ context.Context, _, category string) error {
	w.optedOut = append(w.optedOut, category)
	return w.away
}

func (w *world) OptIn(context.Context, string, string) error {
	w.optedOut = nil
	return w.away
}

func (w *world) inbox(keys *feedback.Keys) *feedback.Inbox {
	return feedback.NewInbox(feedback.Config{
		Keys: keys, Channel: "email", Store: w, Users: w, Now: func() time.Time { return now },
		Gone: email.Gone, Address: email.Address,
	})
}

const uuidID = "01900000-0000-7000-8000-000000000001"

// message reads a message of the folder testdata, with the tokens of a notification put in.
func message(tb testing.TB, name string, k *feedback.Keys, id, address string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	token, link := k.AddressToken(id, address), k.LinkToken(feedback.Link{UserID: "ada", Category: "chat"})
	return []byte(strings.NewReplacer("TOKEN", token, "UPPER", strings.ToUpper(token), "LINK", link, "NOTIFICATION", id,
		"\n", "\r\n").Replace(string(text)))
}

// Each kind of message that mail servers and people send is what it is, and changes what it should.
func TestWhatComesBack(t *testing.T) {
	t.Parallel()
	k := keys(t, newKey)
	gone := feedback.Result{
		Kind: feedback.KindGone, NotificationID: uuidID, Status: "5.1.1", UserID: "ada", Devices: []string{"mail"},
	}
	at := time.Date(2026, 11, 22, 11, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		file  string
		want  feedback.Result
		since time.Time // zero: nothing is deactivated
	}{
		{file: "postfix-unknown.eml", want: gone, since: at},
		{file: "exim-unknown.eml", want: gone, since: at},
		{file: "exchange-unknown.eml", want: gone, since: at},
		{file: "gmail-unknown.eml", want: gone, since: at},
		{file: "truncated.eml", want: gone, since: at},
		{file: "postfix-full.eml", want: feedback.Result{Kind: feedback.KindRefused, NotificationID: uuidID, Status: "5.2.2"}},
		{file: "postfix-delayed.eml", want: feedback.Result{Kind: feedback.KindDelayed, NotificationID: uuidID}},
		{file: "complaint.eml", want: feedback.Result{Kind: feedback.KindComplaint, UserID: "ada", Category: "chat"}},
		{file: "not-spam.eml", want: feedback.Result{Kind: feedback.KindUnknown}},
		{file: "vacation.eml", want: feedback.Result{Kind: feedback.KindNoReport}},
		{file: "read-receipt.eml", want: feedback.Result{Kind: feedback.KindNoReport}},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			w := newWorld(uuidID)
			got, err := w.inbox(k).Take(t.Context(), message(t, c.file, k, uuidID, "ada@example.com"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
			want := map[string]time.Time{}
			if !c.since.IsZero() {
				want["mail bounced: 5.1.1"] = c.since
			}
			if diff := cmp.Diff(want, w.deactivated); diff != "" {
				t.Errorf("deactivated differ (-want +got):\n%s", diff)
			}
			if noted := slices.ContainsFunc(w.deliveries, func(d notification.Delivery) bool {
				return d.DeviceID == "mail" && d.Outcome == "bounced: 5.1.1"
			}); noted == c.since.IsZero() {
				t.Errorf("the deliveries are %+v", w.deliveries)
			}
			if out := c.want.Kind == feedback.KindComplaint; (len(w.optedOut) > 0) != out {
				t.Errorf("opted out of %q", w.optedOut)
			}
		})
	}
}

// However a mail server writes a report, and whatever other programs did to it on its way, it says the same.
func TestReportsAreReadLeniently(t *testing.T) {
	t.Parallel()
	const (
		other = "Final-Recipient: rfc822; other@example.com\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n"
		final = "Final-Recipient: rfc822; ada@example.com\r\n"
		codes = "Status: 5.1.1\r\nDiagnostic-Code: X-Postfix; unknown user: \"ada@example.com\""
	)
	k := keys(t, newKey)
	for name, c := range map[string]struct {
		edits []string // of postfix-unknown.eml: each second replaces the one before
		want  feedback.Kind
	}{
		"an mbox's first line":      {edits: []string{"Return-Path: <>", "From MAILER-DAEMON Sun Nov 22 11:30:00 2026"}},
		"a line that is no field":   {edits: []string{"Return-Path: <>", "Received by mx\r\n\tfor ada\r\nReturn-Path: <>"}},
		"empty lines first":         {edits: []string{"Return-Path: <>", "\r\n \r\nReturn-Path: <>"}},
		"such a line in a part":     {edits: []string{"Content-Description: Delivery", "Delivery"}},
		"such a line in the report": {edits: []string{"Reporting-MTA: dns;", "This is the report of"}},
		"such a line before Action": {edits: []string{"Action: failed", "was 'ada'\r\nAction: failed"}},
		"a blank before colons":     {edits: []string{": ", " : "}},
		"no blank after colons":     {edits: []string{": ", ":"}},
		"no Action":                 {edits: []string{"Action: failed\r\n", ""}},
		"an Action with a comment":  {edits: []string{"Action: failed", "Action: failed (bounced)"}},
		"a Status with a comment":   {edits: []string{"Status: 5.1.1", "Status: 5.1.1 (bad address)"}},
		"no Status":                 {edits: []string{codes, "Diagnostic-Code: smtp;550 5.1.1 no such user"}},
		"a code that is not enhanced": {
			edits: []string{codes, "Diagnostic-Code: smtp; 550 No such user here"},
		},
		"neither Action nor Status": {
			edits: []string{"Action: failed\r\n", "", codes, "Diagnostic-Code: SMTP; 550 user unknown"},
		},
		"folded fields": {edits: []string{
			"Action: failed", "Action:\r\n\tfailed", "Status: 5.1.1", "Status:\r\n 5.1.1", "report; ", "report;\r\n ",
		}},
		"the case of names": {edits: []string{
			"Action: failed", "ACTION: Failed", "Status", "status", "Content-Type: message/d",
			"content-type: Message/D",
		}},
		"LF":                    {edits: []string{"\r\n", "\n"}},
		"CR":                    {edits: []string{"\r\n", "\r"}},
		"LF in the header":      {edits: []string{"\r\n\r\n", "\n\n"}},
		"CR LF after LF":        {edits: []string{"\r\n", "\n", "\n\n", "\r\n\r\n"}},
		"CR CR LF":              {edits: []string{"\r\n", "\r\r\n"}},
		"blanks in empty lines": {edits: []string{"\r\n\r\n", "\r\n \r\n"}},
		"a boundary without marks": {edits: []string{
			`"20F959C6AC0.1795366565/mail.example.com"`, "20F959C6AC0.1795366565/mail.example.com",
		}},
		"blanks after a boundary":  {edits: []string{"/mail.example.com\r\n", "/mail.example.com \t\r\n"}},
		"no report by its type":    {edits: []string{"multipart/report", "multipart/mixed"}},
		"a parameter that is none": {edits: []string{"report-type=delivery-status", "report-type=a b; =; x"}},
		"quoted-printable": {edits: []string{
			"delivery-status\r\n", "delivery-status\r\nContent-Transfer-Encoding: Quoted-Printable\r\n",
			"Status: 5.1.1", "Status: =35.1=\r\n.1",
		}},
		"in another report": {edits: []string{
			"multipart/report", "multipart/mixed; boundary=out\r\n\r\n--out\r\nContent-Type: multipart/report",
		}},
		"no line before recipients": {edits: []string{"\r\n\r\nFinal-R", "\r\nFinal-R"}},
		"another one failed":        {edits: []string{final, strings.Replace(other, "5.1.1", "5.2.2", 1) + final}},
		"the same, without a line": {
			edits: []string{final, strings.Replace(other, "5.1.1\r\n", "5.2.2", 1) + final},
		},
		"another one was reached": {edits: []string{final, strings.Replace(other, "failed", "relayed", 1) + final}},
		"forwarded to two": {edits: []string{
			final, strings.Replace(other, "failed", "delayed", 1) + "Final-Recipient: rfc822; new@example.net\r\n",
			"Original-Recipient: rfc822;ada@example.com\r\n", "",
		}},
		"only another one failed": {
			edits: []string{"Action: failed", "Action: delayed", final, other + final}, want: feedback.KindDelayed,
		},
		"no Action, for now": {edits: []string{"Action: failed\r\n", "", "5.1.1", "4.2.2"}, want: feedback.KindDelayed},
		"nobody": {
			edits: []string{"Final-Recipient", "X", "Action", "X", "Status", "X", "Original-R", "X"},
			want:  feedback.KindDelayed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, text := newWorld(uuidID), string(message(t, "postfix-unknown.eml", k, uuidID, "ada@example.com"))
			for i := 0; i < len(c.edits); i += 2 {
				if !strings.Contains(text, c.edits[i]) {
					t.Fatalf("%q is not there", c.edits[i])
				}
				text = strings.ReplaceAll(text, c.edits[i], c.edits[i+1])
			}
			if c.want == "" {
				c.want = feedback.KindGone
			}
			got, err := w.inbox(k).Take(t.Context(), []byte(text))
			if err != nil || got.Kind != c.want || (len(w.deactivated) == 1) != (c.want == feedback.KindGone) {
				t.Errorf("%+v, %v, deactivated %v, of\n%s", got, err, w.deactivated, text)
			}
		})
	}
}

// A target and a mail, which has its domain in ASCII, have the same address. A server that calls it wrong may not know
// such addresses.
func TestInternationalizedAddressesComeBack(t *testing.T) {
	t.Parallel()
	k := keys(t, newKey)
	for status, want := range map[string]feedback.Kind{"5.1.1": feedback.KindGone, "5.1.3": feedback.KindRefused} {
		w := newWorld(uuidID)
		for i := range w.devices {
			w.devices[i].Target = "Ada <ada@bücher.example>"
		}
		text := string(message(t, "postfix-unknown.eml", k, uuidID, "ada@xn--bcher-kva.example"))
		got, err := w.inbox(k).Take(t.Context(), []byte(strings.ReplaceAll(text, "5.1.1", status)))
		if err != nil || got.Kind != want || (len(w.deactivated) > 0) != (want == feedback.KindGone) {
			t.Errorf("%s: %+v, %v, deactivated %v; want %s", status, got, err, w.deactivated, want)
		}
	}
}

// What was not signed by this deployment, or concerns what it has forgotten, changes nothing.
func TestForgedReportsChangeNothing(t *testing.T) {
	t.Parallel()
	k, other := keys(t, newKey), keys(t, oldKey)
	for name, c := range map[string]struct {
		signed, knows *feedback.Keys
		id, file      string
	}{
		"another's key":            {signed: other, knows: k, id: uuidID, file: "postfix-unknown.eml"},
		"another's complaint":      {signed: other, knows: k, id: uuidID, file: "complaint.eml"},
		"forgotten":                {signed: k, knows: k, id: "01900000-0000-7000-8000-000000000009", file: "postfix-unknown.eml"},
		"an id that it hides":      {signed: k, knows: k, id: "order-7", file: "no-original.eml"},
		"nobody's, without a key":  {signed: k, id: uuidID, file: "postfix-unknown.eml"},
		"a key of links, no other": {signed: other, knows: k, id: "order-7", file: "postfix-unknown.eml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(uuidID)
			got, err := w.inbox(c.knows).Take(t.Context(), message(t, c.file, c.signed, c.id, "ada@example.com"))
			if err != nil || got.Kind != feedback.KindUnknown || len(w.deactivated)+len(w.optedOut) > 0 {
				t.Errorf("%+v, %v; deactivated %v, opted out of %v", got, err, w.deactivated, w.optedOut)
			}
		})
	}
}

// An id of the producer's own is found in the report, and belongs to the token.
func TestIDsOfTheProducersOwn(t *testing.T) {
	t.Parallel()
	k := keys(t, newKey)
	w := newWorld("order-7:of.ada")
	got, err := w.inbox(k).Take(t.Context(), message(t, "postfix-unknown.eml", k, w.view.ID, "ada@example.com"))
	if err != nil || got.Kind != feedback.KindGone || got.NotificationID != w.view.ID || len(got.Devices) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A mail server's clock may be wrong: the moment lies between the notification's and now. A device that was registered
// again after it stays.
func TestADeviceThatWasRegisteredAgainStays(t *testing.T) {
	t.Parallel()
	k := keys(t, newKey)
	attempt := time.Date(2026, 11, 22, 11, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		created, registered, since time.Time
	}{
		"before":                        {created: attempt.Add(-time.Minute), registered: attempt.Add(-time.Hour), since: attempt},
		"again, after the last attempt": {created: attempt.Add(-time.Minute), registered: attempt.Add(time.Minute)},
		"a clock that is late": {
			created: attempt.Add(time.Minute), registered: attempt.Add(time.Minute), since: attempt.Add(time.Minute),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(uuidID)
			w.view.CreatedAt = c.created
			for i := range w.devices {
				w.devices[i].UpdatedAt = c.registered
			}
			text := message(t, "postfix-unknown.eml", k, uuidID, "ada@example.com")
			if _, err := w.inbox(k).Take(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			if got := w.deactivated["mail bounced: 5.1.1"]; !got.Equal(c.since) {
				t.Errorf("deactivated since %s, want %s", got, c.since)
			}
		})
	}
}

// Whatever fails is told, so that the mail server hands the message over again.
func TestAStoreThatIsAwayIsTold(t *testing.T) {
	t.Parallel()
	k := keys(t, newKey)
	early := newWorld(uuidID)
	early.deliveries, early.view.Status = nil, notification.StatusSending
	if got, err := early.inbox(k).Take(t.Context(), message(t, "postfix-unknown.eml", k, uuidID,
		"ada@example.com")); !errors.Is(err, feedback.ErrUnderWay) || len(early.deactivated) > 0 {
		t.Errorf("before it is noted that it went out: %+v, %v", got, err)
	}
	for _, file := range []string{"postfix-unknown.eml", "complaint.eml"} {
		w := newWorld(uuidID)
		w.away = errors.New("away")
		text := message(t, file, k, uuidID, "ada@example.com")
		if got, err := w.inbox(k).Take(t.Context(), text); !errors.Is(err, w.away) {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
}

// A link shows where its user stands, and changes it both ways. Without preferences no link works.
func TestLinks(t *testing.T) {
	t.Parallel()
	k, w := keys(t, newKey), newWorld(uuidID)
	inbox, token := w.inbox(k), k.LinkToken(feedback.Link{UserID: "ada", Category: "chat"})
	for step, want := range []bool{false, true, false} {
		link, out, err := inbox.OptedOut(t.Context(), token)
		if err != nil || out != want || link != (feedback.Link{UserID: "ada", Category: "chat"}) {
			t.Errorf("step %d: %+v, %t, %v", step, link, out, err)
		}
		change := inbox.OptOut
		if out {
			change = inbox.OptIn
		}
		if _, err := change(t.Context(), token); err != nil {
			t.Error(err)
		}
	}
	for name, inbox := range map[string]*feedback.Inbox{
		"another's": w.inbox(keys(t, oldKey)), "without preferences": feedback.NewInbox(feedback.Config{Keys: k}),
	} {
		if _, _, err := inbox.OptedOut(t.Context(), token); !errors.Is(err, feedback.ErrNoLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleLinks() {
	keys, err := feedback.NewKeys("a key of at least thirty-two characters")
	if err != nil {
		panic(err)
	}
	links := feedback.Links{
		Keys: keys, Base: "https://notify.example.com",
		Required: func(category string) bool { return category == "security" },
	}
	link := links.Of("ada", "newsletter")
	fmt.Println(link[:len("https://notify.example.com/v1/unsubscribe/")])
	fmt.Printf("%q\n", links.Of("ada", "security"))
	// Output:
	// https://notify.example.com/v1/unsubscribe/
	// ""
}

// Whatever arrives, it changes nothing unless it is signed.
func FuzzTake(f *testing.F) {
	k := keys(f, newKey)
	names, err := filepath.Glob("testdata/*.eml")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		f.Add(message(f, filepath.Base(name), keys(f, oldKey), uuidID, "ada@example.com"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newWorld(uuidID)
		got, err := w.inbox(k).Take(t.Context(), text)
		if err != nil || len(w.deactivated)+len(w.optedOut) > 0 {
			t.Errorf("%+v, %v; deactivated %v, opted out of %v", got, err, w.deactivated, w.optedOut)
		}
	})
}
