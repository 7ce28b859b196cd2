package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	gomail "github.com/wneessen/go-mail"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/settings"
)

// webhookSecret signs webhooks.
const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // of no service

func pacerWebhook(ctx context.Context, o options) (sample, error) {
	target := startProvider(http.StatusNoContent)
	defer target.server.Close()
	measured, err := dispatchOver(ctx, o.n, notification.ChannelWebhook, always(target.server.URL+"/hook"),
		settings.Channels{Webhook: webhook.Settings{Secret: webhookSecret}})
	return measured, errors.Join(err, target.sent(o.n))
}

// bareWebhook signs with the library of Standard Webhooks, and posts with Go's own client.
func bareWebhook(ctx context.Context, o options) (sample, error) {
	target := startProvider(http.StatusNoContent)
	defer target.server.Close()
	signer, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		return sample{}, err
	}
	transport := transportTo()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	measured, err := sendAll(ctx, o.n, func(i int) error {
		id, now := "msg-"+strconv.Itoa(i), time.Now()
		body, err := json.Marshal(plain{UserID: "user-" + strconv.Itoa(i), Title: "hello", Body: strconv.Itoa(i), CreatedAt: now})
		if err != nil {
			return err
		}
		signature, err := signer.Sign(id, now, body)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.server.URL+"/hook",
			bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(standardwebhooks.HeaderWebhookID, id)
		request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
		return finish(client.Do(request))
	})
	return measured, errors.Join(err, target.sent(o.n))
}

// postOffice is a mail server in this process that takes all mail: both sides of a contest pay for it.
type postOffice struct {
	server *smtp.Server
	host   string
	port   int
	taken  atomic.Int64
	served chan error
}

func startPostOffice(ctx context.Context) (*postOffice, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p := &postOffice{host: "127.0.0.1", port: int(address.Port()), served: make(chan error, 1)}
	p.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &counter{p}, nil
	}))
	p.server.Domain = "localhost"
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// close ends the server.
func (p *postOffice) close() {
	_ = p.server.Close()
	if err := <-p.served; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "bench: the mail server ended:", err)
	}
}

// sent fails unless n mails came.
func (p *postOffice) sent(n int) error {
	if taken := p.taken.Load(); taken != int64(n) {
		return fmt.Errorf("the mail server took %d mails, want %d", taken, n)
	}
	return nil
}

// counter is a connection's session at the post office.
type counter struct{ at *postOffice }

// Reset implements smtp.Session.
func (*counter) Reset() {}

// Logout implements smtp.Session.
func (*counter) Logout() error { return nil }

// Mail implements smtp.Session.
func (*counter) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt implements smtp.Session.
func (*counter) Rcpt(string, *smtp.RcptOptions) error { return nil }

// Data implements smtp.Session.
func (c *counter) Data(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	c.at.taken.Add(1)
	return err
}

const (
	mailFrom = "bench@example.com"
	mailTo   = "ada@example.com"
)

func pacerEmail(ctx context.Context, o options) (sample, error) {
	office, err := startPostOffice(ctx)
	if err != nil {
		return sample{}, err
	}
	defer office.close()
	measured, err := dispatchOver(ctx, o.n, email.Name, always(mailTo), settings.Channels{Email: email.Settings{
		Server: fmt.Sprintf("smtp+plain://%s:%d", office.host, office.port), From: mailFrom,
	}})
	return measured, errors.Join(err, office.sent(o.n))
}

// bareEmail sends with go-mail, each caller over a connection that it keeps.
func bareEmail(ctx context.Context, o options) (sample, error) {
	office, err := startPostOffice(ctx)
	if err != nil {
		return sample{}, err
	}
	defer office.close()
	clients := make([]*gomail.Client, callers)
	defer func() {
		for _, client := range clients {
			if client != nil {
				_ = client.Close() // of a temporary server
			}
		}
	}()
	for i := range clients {
		if clients[i], err = gomail.NewClient(office.host, gomail.WithPort(office.port),
			gomail.WithTLSPolicy(gomail.NoTLS), gomail.WithHELO("localhost")); err != nil {
			return sample{}, err
		}
		if err := clients[i].DialWithContext(ctx); err != nil {
			return sample{}, err
		}
	}
	measured, err := sendAll(ctx, o.n, func(i int) error {
		mail := gomail.NewMsg()
		if err := errors.Join(mail.From(mailFrom), mail.To(mailTo)); err != nil {
			return err
		}
		mail.Subject("hello")
		mail.SetMessageID()
		mail.SetDate()
		mail.SetBodyString(gomail.TypeTextPlain, strconv.Itoa(i))
		return clients[i%callers].Send(mail)
	})
	return measured, errors.Join(err, office.sent(o.n))
}
