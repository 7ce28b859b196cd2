package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/templates"
)

// loadTemplates reads the folder of templates; nil without one.
func loadTemplates(cfg *settings.Resolved) (*templates.Set, error) {
	if cfg.Templates == "" {
		return nil, nil //nolint:nilnil // no folder: no templates, no fault
	}
	set, err := templates.Load(os.DirFS(cfg.Templates))
	if err != nil {
		return nil, refuseTemplates(cfg.Templates, err)
	}
	return set, nil
}

// refuseTemplates says why templates can't be used. The folder itself is "." to what reads it.
func refuseTemplates(folder string, err error) error {
	if unreadable, ok := errors.AsType[*fs.PathError](err); ok && unreadable.Path == "." {
		return refusal.New("--templates (PACER_TEMPLATES): the folder %s can't be read: %v", folder, unreadable.Err)
	}
	return refusal.New("--templates (PACER_TEMPLATES): in the folder %s: %v", folder, err)
}

// templatesKey holds the deployment's templates.
const templatesKey = "pacer:templates"

// templates publishes the templates of a process with the API; they are the deployment's.
func (p *publishing) templates(ctx context.Context) error {
	if !p.settings.HasRole(settings.RoleAPI) {
		return nil
	}
	folder := p.settings.Templates
	if folder == "" {
		return p.client.Del(ctx, templatesKey).Err()
	}
	packed, err := templates.Pack(os.DirFS(folder))
	if errors.Is(err, templates.ErrTooLarge) {
		p.log.WarnContext(ctx, "producers that write to the queue themselves can't use templates", "error", err)
		return p.client.Del(ctx, templatesKey).Err()
	}
	if err != nil {
		return refuseTemplates(folder, err)
	}
	if err := p.client.Set(ctx, templatesKey, packed, 0).Err(); err != nil {
		return fmt.Errorf("publish the templates: %w", err)
	}
	return nil
}

// UsePublishedTemplates has an attached process use the templates that the deployment's dispatchers published.
func (d *Deployment) UsePublishedTemplates(ctx context.Context) (err error) {
	d.templates, err = Templates(ctx, d.Redis.Client)
	return err
}

// Templates reads the deployment's templates; nil when it has none.
func Templates(ctx context.Context, client redis.UniversalClient) (*templates.Set, error) {
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

// Renderer makes contents from templates for intake; nil without templates.
func (d *Deployment) Renderer() func(*intake.Template, *notification.Notification) error {
	if d.templates == nil {
		return nil
	}
	return func(t *intake.Template, n *notification.Notification) error {
		content, err := d.templates.Render(t.Name, t.Locale, t.Data)
		if err != nil {
			field := "template.data"
			if _, unknown := errors.AsType[*templates.UnknownError](err); unknown {
				field = "template.name"
			}
			return &notification.FieldError{Field: field, Message: err.Error()}
		}
		n.Title, n.Body = content.Title, content.Body
		if content.HTML == "" || !d.Rules.Set[n.Channel].TakesHTML {
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
