package settings

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// location has the parts of a URL. User and password are decoded, the others stand as they were written.
type location struct {
	scheme, login, user, password, hosts, path, query string
	hasLogin                                          bool // there is an @ before the hosts
}

// splitURL takes a URL apart. Every setting that is a URL goes through it before a library reads it: libraries show
// what they can't read, and take the rest of a password that was not encoded for a host, which shows. No error has any
// part of the URL.
func splitURL(text string) (location, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	// Nothing of https://example.com/?to=ada@example.com can be a password.
	web := (scheme == "http" || scheme == "https") && !strings.Contains(authority, ":")
	if strings.Contains(tail, "@") && !web {
		return location{}, errors.New("has an @ after the host; in a user or password, / ? # @ and % must be percent-encoded")
	}
	if strings.Contains(tail, "#") {
		return location{}, errors.New("must not hold a #; in a password, write %23")
	}
	at := location{scheme: scheme, hosts: authority}
	at.path, at.query, _ = strings.Cut(tail, "?")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		at.login, at.hosts, at.hasLogin = authority[:i], authority[i+1:], true
	}
	user, password, _ := strings.Cut(at.login, ":")
	var userErr, passwordErr error
	at.user, userErr = url.PathUnescape(user)
	at.password, passwordErr = url.PathUnescape(password)
	if userErr != nil || passwordErr != nil {
		return location{}, errors.New("has a % in user or password without two hexadecimal digits after it; " +
			"write %25 for a %")
	}
	return at, nil
}

// readURL reads a URL that names one host.
func readURL(text string) (*url.URL, error) {
	if _, err := splitURL(text); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL; in a user or password, / ? # @ and % must be percent-encoded")
	}
	return u, nil
}

// checkURL refuses a URL whose password would show. Other texts it leaves alone, such as mailto:ops@example.com.
func checkURL(text string) error {
	if !strings.Contains(text, "://") {
		if strings.Contains(text, "@") && !strings.HasPrefix(text, "mailto:") {
			return errors.New("has an @ but does not begin as a URL does, with https:// for example")
		}
		return nil
	}
	_, err := readURL(text)
	return err
}

// ReadDatabaseURL reads a connection string, or the file that it names. The setting is what a refusal names.
func ReadDatabaseURL(setting, text string) (string, error) {
	if err := ReadCredential(setting, &text); err != nil || text == "" {
		return "", err
	}
	if err := checkDatabaseURL(text); err != nil {
		return "", &UsageError{Setting: setting, Message: err.Error()}
	}
	return text, nil
}

// checkDatabaseURL checks the parts of a connection string. The driver reads what they say.
func checkDatabaseURL(text string) error {
	at, err := splitURL(text)
	switch {
	case !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://"),
		err == nil && at.login+at.hosts+at.path+at.query == "":
		return errors.New("must be of the form postgres://user:password@host:port/database")
	case err != nil:
		return err
	case strings.Contains(at.login, "@"): // the driver would end the password there
		return errors.New("has an @ in user or password; there, / ? # @ and % must be percent-encoded: write %40 for an @")
	}
	for host := range strings.SplitSeq(at.hosts, ",") {
		socket, _, _ := strings.Cut(host, ":")
		socket, err := url.PathUnescape(socket)
		if _, ok := readHost(host, "5432"); !ok && host != "" && (err != nil || !strings.HasPrefix(socket, "/")) {
			return errors.New("must name each host as host or host:port, with a port between 1 and 65535; " +
				"in a password, / ? # @ and % must be percent-encoded")
		}
	}
	_, pathErr := url.PathUnescape(at.path)
	_, queryErr := url.ParseQuery(at.query)
	if pathErr != nil || queryErr != nil {
		return errors.New("must end as in /database?name=value&name=value, with %25 for a %")
	}
	return nil
}

// quoted shows a value that was to be an address, unless it may hold a password.
func quoted(text string) string {
	if strings.Contains(text, "@") {
		return "(not shown)"
	}
	return strconv.Quote(text)
}
