package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/settings"
)

type vapidCommand struct {
	Generate vapidGenerateCommand `cmd:"" help:"Make a key pair, once per deployment: a new one invalidates all subscriptions."`
	Public   vapidPublicCommand   `cmd:"" help:"Print the public key that belongs to a private key."`
}

type vapidGenerateCommand struct {
	Out  string `name:"out" env:"-" placeholder:"FILE" help:"Write the private key into this new file, for --webpush-key=file:FILE, and print only the public one."`
	JSON bool   `name:"json" env:"-" help:"Print JSON, for programs."`
}

// Run makes a key pair and prints it.
func (c *vapidGenerateCommand) Run(to streams) error {
	pair, err := webpush.GenerateKeys()
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := writeNew(c.Out, pair.Private+"\n"); err != nil {
			return err
		}
		pair.Private = ""
	}
	if c.JSON {
		return json.NewEncoder(to.out).Encode(pair) //nolint:gosec // it is what was asked for
	}
	text := "# for pages, as applicationServerKey; GET /v1/webpush/key gives it, too\n" + pair.Public + "\n"
	if pair.Private != "" {
		text = "# for the dispatcher; keep it secret\nPACER_WEBPUSH_KEY=" + pair.Private + "\n" + text
	}
	_, err = to.out.Write([]byte(text))
	return err
}

// writeNew writes a file that does not exist yet, for its owner alone.
func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and was not changed, because a new key invalidates all subscriptions: name another file", path)
	}
	if err != nil {
		return fmt.Errorf("write the private key: %w", err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the private key: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

type vapidPublicCommand struct {
	Key string `name:"webpush-key" required:"" placeholder:"KEY|file:PATH" help:"The private key."`
}

// Run prints the public key.
func (c *vapidPublicCommand) Run(to streams) error {
	if err := settings.ReadCredential("--webpush-key", &c.Key); err != nil {
		return err
	}
	public, err := webpush.PublicKey(c.Key)
	if err != nil {
		return &settings.UsageError{Message: "--webpush-key: " + err.Error()}
	}
	_, err = fmt.Fprintln(to.out, public)
	return err
}
