package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/enqueue"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/settings"
)

// command is the program's command line.
type command struct {
	settings.Stores
	settings.Client

	Notification notificationFlags `embed:"" group:"Notification"`

	Count          int    `name:"count" env:"-" default:"1" placeholder:"N" help:"How many copies to send. Default: ${default}."`
	IdempotencyKey string `name:"idempotency-key" env:"-" placeholder:"KEY" help:"Accept it only once, however often this is run; with --count above 1, the n-th has KEY:n, with --file, the one in line n."`
	File           string `name:"file" short:"f" env:"-" placeholder:"FILE" help:"Send many: one JSON object a line, from a file or - for standard input."`
	Promise        bool   `name:"promise" env:"-" help:"After each id, print when it will be delivered; a notification that could only expire is refused."`
	PrintIDs       bool   `name:"print-ids" env:"-" help:"With --file, write the id of each accepted notification to standard output."`

	Partitions int              `name:"partitions" default:"16" hidden:"" help:"Partitions of a deployment that has not started yet."`
	Policy     string           `name:"policy" hidden:"" help:"Policy of a deployment that has not started yet."`
	Version    kong.VersionFlag `name:"version" env:"-" help:"Show the version."`
}

// notificationFlags are the fields of one notification.
type notificationFlags struct {
	User        string `name:"user" env:"-" placeholder:"ID" help:"User to notify."`
	Category    string `name:"category" env:"-" help:"Category of the policy. Default: default."`
	Channel     string `name:"channel" env:"-" predictor:"channels" help:"Channel to send it over: any that the deployment has. Default: webhook."`
	To          string `name:"to" env:"-" placeholder:"TARGET" help:"Target, in the form that the channel needs: a device token, subscription, address or URL. Default: the user's devices."`
	Title       string `name:"title" env:"-" placeholder:"TEXT" help:"Title."`
	Body        string `name:"body" env:"-" placeholder:"TEXT" help:"Body."`
	Data        string `name:"data" env:"-" placeholder:"JSON" help:"A JSON object."`
	Override    string `name:"override" env:"-" placeholder:"JSON" help:"JSON object in the channel's own format, laid over the message. Needs --channel."`
	Template    string `name:"template" env:"-" placeholder:"NAME" help:"Template that makes the contents, filled with --data."`
	Locale      string `name:"locale" env:"-" placeholder:"TAG" help:"Language of the template, such as de-AT."`
	Priority    string `name:"priority" env:"-" predictor:"priorities" help:"critical, high, normal or low. Default: normal."`
	SendAt      string `name:"send-at" env:"-" placeholder:"TIME" help:"Do not send before this time (RFC 3339)."`
	ExpiresAt   string `name:"expires-at" env:"-" placeholder:"TIME" help:"Do not send after this time (RFC 3339)."`
	MaxWait     string `name:"max-wait" env:"-" placeholder:"DURATION" help:"Refuse it if it can't go within this time, such as 30s."`
	CollapseKey string `name:"collapse-key" env:"-" placeholder:"KEY" help:"Replace a waiting notification with the same key."`
	GroupKey    string `name:"group-key" env:"-" placeholder:"KEY" help:"What it belongs to, such as an order: names it together with the user's others."`
}

// errSomeRefused is the outcome when some lines went in and others did not, or could not be told; this was reported
// already.
var errSomeRefused = errors.New("some were refused")

func refuseUsage(setting, message string) error {
	return &settings.UsageError{Setting: setting, Message: message}
}

func (c *command) execute(ctx context.Context, with streams) error {
	input, size, err := c.input(with)
	if err != nil {
		return err
	}
	defer input.Close()
	api, closeAPI, err := c.api(ctx, with)
	if err != nil {
		return err
	}
	start := time.Now()
	bar := progress(with.err, size)
	complaints := &complaints{to: with.err, single: c.File == ""}
	cfg := enqueue.Config{
		API: api, IdempotencyKey: c.IdempotencyKey,
		Read: func(n int) { _ = bar.Add(n) }, // a bar that can't be drawn is no reason to stop
		Refused: func(where, why string) {
			_ = bar.Clear() // see above
			complaints.add(where, why)
		},
	}
	var unwritten error
	if c.File == "" || c.PrintIDs || c.Promise {
		cfg.Promise = c.Promise
		cfg.Accepted = func(r enqueue.Result) {
			line := r.ID
			if c.Promise {
				line += "\t" + r.Promise.String()
			}
			if _, err := fmt.Fprintln(with.out, line); err != nil && unwritten == nil {
				unwritten = err
			}
		}
	}
	summary, err := enqueue.Run(ctx, cfg, input)
	_ = bar.Finish() // see above
	if closeErr := closeAPI(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if err == nil || summary != (enqueue.Summary{}) {
		_, _ = fmt.Fprintf(with.err, "accepted %d, repeated %d, refused %d in %s\n", summary.Accepted, summary.Repeated,
			summary.Refused, time.Since(start).Round(time.Millisecond)) // nowhere else to tell
	}
	if _, isArray := errors.AsType[enqueue.ArrayError](err); isArray {
		return refuseUsage("--file", "can't be taken: "+err.Error())
	}
	if unwritten != nil {
		_, _ = fmt.Fprintf(with.err, "enqueue: could not write all ids to standard output (%v); what is accepted stays "+
			"accepted\n", unwritten) // nowhere else to tell
	}
	if err == nil && (summary.Refused > 0 || unwritten != nil) {
		err = errSomeRefused
	}
	return err
}

// complaints reports why notifications were refused. Those of one command line are all alike, so a reason is told once
// and without a line.
type complaints struct {
	to     io.Writer
	single bool
	told   string
}

func (c *complaints) add(where, why string) {
	switch {
	case !c.single:
		_, _ = fmt.Fprintf(c.to, "%s: %s\n", where, why) // nowhere else to tell
	case why != c.told:
		c.told = why
		_, _ = fmt.Fprintf(c.to, "enqueue: refused: %s\n", why) // see above
	}
}

// input returns the lines to be sent, and how many bytes they have (-1: not known).
func (c *command) input(with streams) (io.ReadCloser, int64, error) {
	if c.File == "" {
		if c.PrintIDs {
			return nil, 0, refuseUsage("--print-ids", "is only for --file: the id of a single notification is always printed")
		}
		lines, err := c.lines()
		if err != nil {
			return nil, 0, err
		}
		return io.NopCloser(lines), lines.size(), nil
	}
	if c.Notification != (notificationFlags{}) || c.Count != 1 {
		return nil, 0, refuseUsage("--file", "can't be combined with the flags of a single notification or with --count")
	}
	if c.File == "-" {
		return io.NopCloser(with.in), -1, nil
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, 0, refuseUsage("--file", "can't be read: "+err.Error())
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New(c.File + " is a directory")
	}
	if err != nil {
		return nil, 0, errors.Join(refuseUsage("--file", "can't be read: "+err.Error()), file.Close())
	}
	return file, info.Size(), nil
}

// lines makes the notification of the flags, as often as it is wanted.
func (c *command) lines() (*repeated, error) {
	n := c.Notification
	if n.User == "" {
		return nil, refuseUsage("--user", "is required, or --file")
	}
	if c.Count < 1 {
		return nil, refuseUsage("--count", fmt.Sprintf("must be at least 1, is %d", c.Count))
	}
	fields, err := n.fields()
	if err != nil {
		return nil, err
	}
	if c.IdempotencyKey != "" && c.Count == 1 { // a line with a key gets no other
		fields["idempotency_key"] = c.IdempotencyKey
	}
	line, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the notification: %w", err)
	}
	return &repeated{line: append(line, '\n'), left: c.Count}, nil
}

// fields are the notification as the API takes it.
func (n *notificationFlags) fields() (map[string]any, error) {
	for _, raw := range []struct{ flag, value string }{{"--data", n.Data}, {"--override", n.Override}} {
		if raw.value != "" && !json.Valid([]byte(raw.value)) {
			return nil, refuseUsage(raw.flag, `must be a JSON object, such as {"order":17}, is `+nearest.Quote(raw.value))
		}
	}
	if n.Override != "" && n.Channel == "" {
		return nil, refuseUsage("--override", "needs --channel, whose format it is in")
	}
	if n.Locale != "" && n.Template == "" {
		return nil, refuseUsage("--locale", "needs --template")
	}
	fields := map[string]any{}
	for name, value := range map[string]string{
		"user_id": n.User, "category": n.Category, "channel": n.Channel, "to": n.To, "title": n.Title, "body": n.Body,
		"priority": n.Priority, "send_at": n.SendAt, "expires_at": n.ExpiresAt, "collapse_key": n.CollapseKey,
		"group_key": n.GroupKey, "max_wait": n.MaxWait,
	} {
		if value != "" {
			fields[name] = value
		}
	}
	data := json.RawMessage(n.Data)
	switch {
	case n.Template != "":
		fields["template"] = template{n.Template, n.Locale, data}
	case n.Data != "":
		fields["data"] = data
	}
	if n.Override != "" {
		fields[n.Channel] = json.RawMessage(n.Override)
	}
	return fields, nil
}

// template names the contents of a notification, as the API takes it.
type template struct {
	Name   string          `json:"name"`
	Locale string          `json:"locale,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// api returns the API to send to: the one of a dispatcher, or with REDIS_URL one in this process.
func (c *command) api(ctx context.Context, with streams) (*enqueue.API, func() error, error) {
	if c.RedisURL == "" {
		token := c.Token
		if err := settings.ReadCredential("--token (PACER_TOKEN)", &token); err != nil {
			return nil, nil, err
		}
		client := &http.Client{Timeout: 30 * time.Second}
		return &enqueue.API{URL: c.Server, Token: token, Client: client},
			func() error { client.CloseIdleConnections(); return nil }, nil
	}
	server := settings.Server{
		Stores: c.Stores, Logging: settings.Logging{LogLevel: "warn"}, Roles: []string{string(settings.RoleWorker)},
		Policy: c.Policy, Partitions: c.Partitions, Concurrency: 1,
		// Of the others: a producer neither drains nor purges, and runs no bulk job.
		DrainTimeout: time.Second, Retention: 30 * 24 * time.Hour, BulkRate: 1,
	}
	resolved, err := server.Resolve()
	if err != nil {
		return nil, nil, err
	}
	producer, err := app.NewProducer(ctx, resolved, slog.New(slog.NewTextHandler(with.err,
		&slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return nil, nil, err
	}
	return &enqueue.API{URL: "http://pacer.invalid", Client: enqueue.InProcess(producer.Handler)}, producer.Close, nil
}

// progress draws a bar when somebody can see it.
func progress(to io.Writer, size int64) *progressbar.ProgressBar {
	file, ok := to.(*os.File)
	visible := ok && term.IsTerminal(int(file.Fd()))
	return progressbar.NewOptions64(size, progressbar.OptionSetWriter(to), progressbar.OptionSetVisibility(visible),
		progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetDescription("enqueue"))
}
