package app

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
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
		if content.HTML == "" || n.Channel != notification.ChannelEmail {
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
