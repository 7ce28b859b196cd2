package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/templates"
)

// openTemplates reads the folder of templates, where there is one.
func (a *App) openTemplates() error {
	if a.cfg.Templates == "" {
		return nil
	}
	set, err := templates.Load(os.DirFS(a.cfg.Templates))
	if err != nil {
		return refuse("--templates (PACER_TEMPLATES) %v", err)
	}
	a.templates = set
	return nil
}

// templatesKey holds the deployment's templates, for producers that write to the queue themselves.
const templatesKey = "pacer:templates"

// publishTemplates writes the templates where producers that write to the queue themselves find them. Those of the
// processes with the API are the deployment's.
func (a *App) publishTemplates(ctx context.Context) error {
	if !a.cfg.HasRole(settings.RoleAPI) {
		return nil
	}
	if a.templates == nil {
		return a.redis.Client.Del(ctx, templatesKey).Err()
	}
	packed, err := templates.Pack(os.DirFS(a.cfg.Templates))
	if errors.Is(err, templates.ErrTooLarge) {
		a.log.WarnContext(ctx, "producers that write to the queue themselves can't use templates", "error", err)
		return a.redis.Client.Del(ctx, templatesKey).Err()
	}
	if err != nil {
		return refuse("--templates (PACER_TEMPLATES) %v", err)
	}
	if err := a.redis.Client.Set(ctx, templatesKey, packed, 0).Err(); err != nil {
		return fmt.Errorf("publish the templates: %w", err)
	}
	return nil
}

// publishedTemplates are the deployment's; nil when it has none.
func publishedTemplates(ctx context.Context, client redis.UniversalClient) (*templates.Set, error) {
	packed, err := client.Get(ctx, templatesKey).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // none published: no templates, no fault
	}
	if err != nil {
		return nil, fmt.Errorf("read the deployment's templates: %w", err)
	}
	set, err := templates.Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("read the deployment's templates: %w", err)
	}
	return set, nil
}

// renderer makes contents from templates for intake; nil without templates.
func (a *App) renderer() func(*intake.Template, *notification.Notification) error {
	if a.templates == nil {
		return nil
	}
	return func(t *intake.Template, n *notification.Notification) error {
		content, err := a.templates.Render(t.Name, t.Locale, t.Data)
		switch {
		case errors.Is(err, templates.ErrUnknown):
			return &notification.FieldError{Field: "template.name", Message: err.Error()}
		case err != nil:
			return &notification.FieldError{Field: "template.data", Message: err.Error()}
		}
		n.Title, n.Body = content.Title, content.Body
		if content.HTML == "" || !a.rules.channels[n.Channel].TakesHTML {
			return nil
		}
		n.Override, err = withHTML(n.Override, content.HTML)
		return err
	}
}

// withHTML puts an HTML part into an override, unless the producer gave one.
func withHTML(override json.RawMessage, html string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(override) > 0 && json.Unmarshal(override, &members) != nil {
		return override, nil // what is wrong with it is told where overrides are checked
	}
	if _, given := members["html"]; given {
		return override, nil
	}
	text, err := json.Marshal(html)
	if err != nil {
		return nil, err
	}
	members["html"] = text
	return json.Marshal(members)
}
