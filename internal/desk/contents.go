package desk

import (
	"encoding/json"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Contents are what a notification says, and to whom. They are private.
type Contents struct {
	// To is the target without what must stay secret, see [maskTarget]; "" when it goes to the user's devices.
	To    string          `json:"to,omitempty"`
	Title string          `json:"title,omitempty"`
	Body  string          `json:"body,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	// Override is the content in the channel's own format.
	Override json.RawMessage `json:"override,omitempty"`
}

func contents(n *notification.Notification) *Contents {
	return &Contents{To: maskTarget(n.To), Title: n.Title, Body: n.Body, Data: n.Data, Override: n.Override}
}

// maskTarget keeps as much of a target as reports where it leads: the host of a URL or an address, the last four
// characters of a long token. Whoever knows the whole target can often send to it.
func maskTarget(target string) string {
	const mask, shown = "***", 4
	if host := notification.HostOf(target); host != "" {
		return host + "/" + mask
	}
	if _, domain, found := strings.Cut(target, "@"); found {
		return mask + "@" + domain
	}
	if runes := []rune(target); len(runes) >= 5*shown {
		return mask + string(runes[len(runes)-shown:])
	}
	if target == "" {
		return ""
	}
	return mask
}
