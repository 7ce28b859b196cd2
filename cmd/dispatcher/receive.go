package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/receiver"
	"github.com/pacer-notify/pacer/internal/settings"
)

// receiveCommand is a webhook target for trials.
type receiveCommand struct {
	Listen string        `name:"listen" env:"-" default:"127.0.0.1:9099" placeholder:"HOST:PORT" help:"Address to listen on. Default: ${default}."`
	Secret string        `name:"secret" env:"PACER_WEBHOOK_SECRET" placeholder:"SECRET" json:"-" help:"Verify signatures with this Standard Webhooks secret, whsec_... or file:PATH; several with commas."`
	Fail   string        `name:"fail" env:"-" placeholder:"STATUS[:N|:P%]" help:"Fail with this status: every request (503), the first N (503:3) or a share (503:20%)."`
	Slow   time.Duration `name:"slow" env:"-" placeholder:"DURATION" help:"Wait this long before each response, such as 2s."`
	JSON   bool          `name:"json" env:"-" help:"Write one JSON object for each arrival, for programs."`
}

// receiveDrain is how long a receiver that is told to stop waits for its last responses.
const receiveDrain = 5 * time.Second

// Run receives until SIGTERM or SIGINT, and reports what arrived.
func (c *receiveCommand) Run(ctx context.Context, to streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	receiving, err := c.receiver(to.out)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return &settings.UsageError{Setting: "--listen", Message: "can't be used: " + err.Error()}
	}
	_, _ = fmt.Fprintf(to.err, "receiving at http://%s: send webhooks there, stop with Ctrl-C\n", listener.Addr()) // nowhere else to tell
	server := &http.Server{
		Handler: receiving, ReadHeaderTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // slow responses end when it stops
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiveDrain)
		defer cancel()
		err = errors.Join(server.Shutdown(drain), <-served)
	}
	s := receiving.Summary()
	_, _ = fmt.Fprintf(to.err, "received %d: failed on purpose %d, invalid signature %d, not a notification %d\n",
		s.Received, s.Failed, s.Invalid, s.Faulty) // see above
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("receive: %w", err)
}

// receiver makes the target that the flags describe.
func (c *receiveCommand) receiver(out io.Writer) (*receiver.Receiver, error) {
	fail, err := receiver.ParseFailure(c.Fail)
	if err != nil {
		return nil, &settings.UsageError{Setting: "--fail", Message: err.Error()}
	}
	if c.Slow < 0 {
		return nil, &settings.UsageError{Setting: "--slow", Message: "must not be negative"}
	}
	secret := c.Secret
	if err := settings.ReadCredential("--secret (PACER_WEBHOOK_SECRET)", &secret); err != nil {
		return nil, err
	}
	show := showArrival
	if c.JSON {
		show = writeArrival
	}
	receiving, err := receiver.New(receiver.Config{
		Secrets: strings.FieldsFunc(secret, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }),
		Fail:    fail, Slow: c.Slow, Arrived: func(a receiver.Arrival) { show(out, a) },
	})
	if err != nil {
		return nil, &settings.UsageError{Setting: "--secret (PACER_WEBHOOK_SECRET)", Message: err.Error()}
	}
	return receiving, nil
}

// writeArrival writes an arrival as a line of JSON.
func writeArrival(out io.Writer, a receiver.Arrival) {
	_ = json.NewEncoder(out).Encode(a) // nowhere else to tell
}

// showArrival writes an arrival as a line for people.
func showArrival(out io.Writer, a receiver.Arrival) {
	if a.Fault != "" {
		_, _ = fmt.Fprintf(out, "%s  %s -> %d\n", clock(a.At), printable(a.Fault), a.Status) // nowhere else to tell
		return
	}
	gap := "the first"
	if a.Gap != nil {
		gap = fmt.Sprintf("%.3f s after the one before", a.Gap.Seconds())
	}
	where := ""
	if a.Path != "/" {
		where = " at " + printable(a.Path)
	}
	_, _ = fmt.Fprintf(out, "%s  %s%s, %s: %q, attempt %d, %s, %s, %s -> %d\n", clock(a.At), printable(a.UserID), where,
		printable(a.Category), a.Title, a.Attempt, gap, a.Signature, printable(a.ID), a.Status) // see above
}

// printable quotes a text that would change the terminal.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}
