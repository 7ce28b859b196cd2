// Package teams posts Adaptive Cards to Microsoft Teams: to the webhooks of Workflows, and to those of the connectors
// that they replace, as long as these still live. A webhook's URL is all that protects a conversation, so it shows in
// no log, error or metric. There is no idempotency key: a repeat after an attempt without a response may show twice.
package teams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// Sender posts to webhooks.
type Sender struct {
	Checker
	hook *httpsend.Hook
}

// New makes a Sender. It fails when there is no host, or one that is none.
func New(cfg httpsend.HookConfig) (*Sender, error) {
	hook, err := httpsend.NewHook(cfg)
	if err != nil {
		return nil, err
	}
	s := &Sender{Checker: Checker{cfg.Hosts, hook.CheckURL}, hook: hook}
	hook.CheckTarget, hook.Message, hook.Classify = s.CheckTarget, message, classify
	return s, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error { return s.hook.Close() }

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error { return s.hook.Send(ctx, m) }

// Checker checks notifications for Teams. Hosts are where webhooks may be. CheckURL reports whether a target may be
// called.
type Checker struct {
	Hosts    httpsend.Hosts
	CheckURL func(string) error
}

// CheckTarget implements [push.Checker]. Its errors repeat nothing of the target. The URL of a workflow that anyone may
// trigger has a signature; without it, the workflow would refuse the call.
func (c Checker) CheckTarget(to string) error {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || len(u.Path) < 2 || u.Fragment != "":
		return errors.New("must be the URL of a workflow's webhook, as Teams shows it: https://…")
	case !c.Hosts.Has(u):
		return fmt.Errorf("must be at a host that --teams-hosts (PACER_TEAMS_HOSTS) names: %s", c.Hosts)
	case isWorkflow(u) && u.Query().Get("sig") == "":
		return errors.New("must be the whole URL of a workflow that anyone may trigger: its signature, sig=…, is missing")
	}
	return c.CheckURL(to)
}

// isWorkflow reports whether a URL is at Microsoft's service for workflows.
func isWorkflow(u *url.URL) bool {
	return httpsend.Hosts{"*.logic.azure.com", "*.powerplatform.com", "*.powerautomate.com"}.Has(u)
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	_, err := message(n)
	return err
}

// told is how a connector reports what Teams responded to it. Its own status is 200 all the same.
var told = regexp.MustCompile(`Microsoft Teams endpoint returned HTTP error ([45]\d\d)\b`)

// classify says what a response means; nil is delivered.
func classify(response *http.Response, text string) *push.Error {
	read := httpsend.ResponseOf(response)
	if found := told.FindStringSubmatch(text); found != nil && read.Status/100 == 2 {
		read.Status, _ = strconv.Atoi(found[1])
	}
	var body struct{ Error struct{ Code string } }
	if json.Unmarshal([]byte(text), &body) == nil { // a connector's text is no JSON
		read.Reason = body.Error.Code
	}
	return responses.Read(read)
}
