package settings

import (
	"errors"
	"reflect"
	"strings"

	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/push/email"
)

// readUnsubscribeKey reads the keys that sign what e-mails carry, from the settings or from the files that they name.
func (s *Server) readUnsubscribeKey() ([]string, error) {
	var keys []string
	for _, key := range s.UnsubscribeKey {
		entries := []string{strings.TrimSpace(key)}
		if len(pathsIn(key)) > 0 {
			if err := readCredential("unsubscribe-key", &key); err != nil {
				return nil, err
			}
			entries = splitEntries(key)
		}
		keys = append(keys, entries...)
	}
	if err := feedback.CheckKeys(keys); err != nil {
		return nil, refuse("unsubscribe-key", "%v", err)
	}
	return keys, nil
}

func (s *Server) resolveKeys(renewed Renewed) (*feedback.Keys, error) {
	texts, err := renewed.UnsubscribeKey.read()
	if err != nil {
		return nil, err
	}
	return feedback.NewKeys(texts...)
}

// resolveLinks reads where the links of e-mails lead.
func (s *Server) resolveLinks() (public string, err error) {
	var faults []error
	need := func(setting, needed, why string) {
		faults = append(faults, refuse(setting, "needs %s to be set too%s", flagName(needed), why))
	}
	if s.PublicURL != "" {
		faults = append(faults, s.checkPublicURL())
		if len(s.UnsubscribeKey) == 0 {
			need("public-url", "unsubscribe-key", "")
		}
		if s.DatabaseURL == "" && s.RedisURL == "" {
			need("public-url", "redis-url", ", or --database-url: else a restart forgets what users unsubscribed from")
		}
	}
	for _, of := range s.Channels.senders() {
		mail, ok := reflect.TypeAssert[email.Settings](of.settings)
		if ok && mail.BounceAddress != "" && len(s.UnsubscribeKey) == 0 {
			need(of.prefix+"bounce-address", "unsubscribe-key", "")
		}
	}
	return strings.TrimRight(s.PublicURL, "/"), errors.Join(faults...)
}

// checkPublicURL refuses what mail providers would not call: the standard wants https. Tests have http on this machine.
func (s *Server) checkPublicURL() error {
	u, err := readURL(s.PublicURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsAny(s.PublicURL, "<> ,") {
		return refuse("public-url", "must be a URL such as https://notify.example.com")
	}
	local, err := isLoopback(u.Hostname() + ":80")
	if u.Scheme != "https" && (u.Scheme != "http" || err != nil || !local) {
		return refuse("public-url", "must begin with https://, since mail providers call no other")
	}
	return nil
}
