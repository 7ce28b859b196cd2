package app

import (
	"context"
	"net/http"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/version"
)

// apiHandler makes the API over this process's store, to be asked under the hosts that host says; nil for all.
func (a *App) apiHandler(tokens []string, host func(string) bool) (http.Handler, error) {
	guard, err := a.apiGuard()
	if err != nil {
		return nil, err
	}
	cfg := httpapi.Config{
		Intake: a.intake, Store: a.store, Throttle: windows{a}, Processes: a.processes,
		HasCategory: a.rules.HasCategory,
		Devices:     devices{a.store, a.rules}, Tokens: tokens, Host: host, Guard: guard,
		Version: version.Current().Version, Log: a.log,
	}
	for _, c := range a.cfg.Channels.All() {
		cfg.Channels = append(cfg.Channels, httpapi.Channel{Name: c.Name, OwnFormat: c.OwnFormat})
	}
	if a.postgres != nil {
		cfg.List, cfg.Users = a.postgres.List, users{a.postgres, a.rules}
	}
	return httpapi.New(cfg)
}

// windows answers the API's questions about users' windows.
type windows struct{ app *App }

// Window implements httpapi's Throttle.
func (w windows) Window(ctx context.Context, userID, category string) (httpapi.Window, error) {
	in, err := w.app.agendas.Peek(ctx, dispatch.BacklogOf(userID, category, w.app.cfg.Partitions))
	if err != nil {
		return httpapi.Window{}, err
	}
	window := httpapi.Window{
		UserID: userID, Category: category, Allowed: in.Allowed, NextAllowedAt: in.At.Time().UTC(),
		Deferred:   in.Deferred,
		TimeLeftMS: int64((in.Wait() + time.Millisecond - 1) / time.Millisecond), Rules: []httpapi.Rule{},
	}
	if in.Rule != throttle.NoRule {
		window.Reason = in.Rules[in.Rule].Rule.String()
	}
	for _, r := range in.Rules {
		rule := httpapi.Rule{
			Max: r.Rule.Max, Per: throttle.FormatDuration(r.Rule.Per), Used: r.Used,
			Remaining: r.Remaining(),
		}
		if r.FreesAt > 0 {
			at := r.FreesAt.Time().UTC()
			rule.FreesAt = &at
		}
		window.Rules = append(window.Rules, rule)
	}
	return window, nil
}

// Clear implements httpapi's Throttle. The cap's window is forgotten with the category's.
func (w windows) Clear(ctx context.Context, userID, category string) error {
	a := w.app
	if err := a.agendas.Clear(ctx, dispatch.BacklogOf(userID, category, a.cfg.Partitions)); err != nil {
		return err
	}
	entry := control.Entry{By: "API", Action: clearedAction, Subject: userID, Detail: category}
	if err := a.control.Note(ctx, entry); err != nil {
		a.log.WarnContext(ctx, "windows were cleared, which the audit trail does not tell: the checker may report it",
			"user_id", userID, "error", err)
	}
	return nil
}

// processes lists the processes of the deployment.
func (a *App) processes(ctx context.Context) ([]stats.Process, error) {
	alive, err := presence.List(ctx, a.redis.client)
	if err != nil {
		return nil, err
	}
	processes := make([]stats.Process, len(alive))
	for i, p := range alive {
		processes[i] = p.Process
	}
	return processes, nil
}
