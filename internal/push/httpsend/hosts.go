package httpsend

import (
	"net/url"
	"strings"
)

// Hosts are the hosts that a channel's targets may be at: names such as hooks.slack.com, or *.logic.azure.com for all
// names below one. A port is no part of a name.
type Hosts []string

// ReadHosts reads what [Hosts.String] writes.
func ReadHosts(text string) Hosts {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// String writes the hosts for people.
func (h Hosts) String() string { return strings.Join(h, ", ") }

// Valid reports whether each is a name, or a * and a name of two parts at least: nobody owns a whole top-level domain.
func (h Hosts) Valid() bool {
	for _, host := range h {
		name, below := strings.CutPrefix(host, "*.")
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") != "" ||
			strings.HasPrefix(name, ".") || below && !strings.Contains(strings.Trim(name, "."), ".") {
			return false
		}
	}
	return true
}

// Has reports whether a URL is at one of the hosts.
func (h Hosts) Has(u *url.URL) bool {
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	for _, host := range h {
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		if domain, below := strings.CutPrefix(host, "*"); host == name || below && strings.HasSuffix(name, domain) {
			return true
		}
	}
	return false
}
