package settings_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// However the settings are printed, their secrets are not.
func TestSettingsHideTheirSecrets(t *testing.T) {
	t.Parallel()
	p, err := parse(t, []string{
		"REDIS_URL=redis://u:hunter2@r", "DATABASE_URL=postgres://u:hunter2@d/x", "PACER_API_TOKENS=hunter2,hunter22",
		"PACER_WEBHOOK_SECRET=" + secret, "PACER_EVENTS_SECRET=" + secret, "PACER_TOKEN=hunter2",
		"PACER_EVENTS_ENDPOINTS=https://example.com/hunter2",
		"PACER_UNSUBSCRIBE_KEY=hunter2-hunter2-hunter2-hunter2-hunter2",
	}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := p.Serve.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	enqueue, err := parse(t, []string{"PACER_TOKEN=hunter2", "REDIS_URL=redis://u:hunter2@r"}, "enqueue")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{
			p.Serve, &p.Serve, p.Serve.Server, p.Serve.Stores, resolved, resolved.Redis, p, *p,
			enqueue.Enqueue, enqueue.Enqueue.Client, enqueue.Enqueue.Stores,
		} {
			fmt.Fprintf(&out, format+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("settings", "server", p.Serve.Server, "stores", p.Serve.Stores, "resolved", resolved,
			"redis", resolved.Redis, "client", enqueue.Enqueue.Client)
	}
	for _, leak := range []string{"hunter", secret} {
		if i := strings.Index(out.String(), leak); i >= 0 {
			t.Errorf("shown: ...%s", out.String()[max(0, i-200):i+len(leak)])
		}
	}
	for _, want := range []string{
		"redis-url:<secret>", "partitions:16", "redis://r:6379", "server:http://127.0.0.1:8080",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing shows %q:\n%s", want, out.String())
		}
	}
}
