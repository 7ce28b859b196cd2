package ntfy

import (
	"errors"
	"net/url"
	"strings"
)

// maxTopic is how many characters a topic's name may have.
const maxTopic = 64

// Checker checks notifications for ntfy. Server is the server for topics without a URL. CheckURL reports whether
// another server may be called.
type Checker struct {
	Server   string
	CheckURL func(string) error
}

// topic is where a notification is published.
type topic struct{ server, name string }

// CheckTarget implements [push.Checker]. A target is a topic's name or its URL.
func (c Checker) CheckTarget(to string) error {
	_, err := c.topic(to)
	return err
}

// topic reads a target. Its errors do not repeat the target, since whoever knows a topic may read it.
func (c Checker) topic(to string) (topic, error) {
	t := topic{server: c.Server, name: to}
	if strings.Contains(to, "/") {
		u, err := url.Parse(to)
		if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return topic{}, errors.New("must be a topic or its URL, such as https://ntfy.sh/alerts")
		}
		t = topic{server: u.Scheme + "://" + u.Host, name: strings.TrimPrefix(u.Path, "/")}
	}
	if !isTopic(t.name) {
		return topic{}, errors.New("must be a topic or its URL: a topic has 1 to 64 of A-Z a-z 0-9 _ -")
	}
	if t.server == "" {
		return topic{}, errors.New("must be the URL of a topic: no server is known")
	}
	t.server = origin(t.server)
	return t, c.CheckURL(t.server)
}

// isTopic reports whether a text can be the name of a topic.
func isTopic(name string) bool {
	return name != "" && len(name) <= maxTopic &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
