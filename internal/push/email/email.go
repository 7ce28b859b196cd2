// Package email delivers by SMTP to one server, the deployment's own or a provider's. It keeps connections and uses
// them again. A repeat has the same Message-ID, so mail servers and readers can drop it.
package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Config of a Sender. Server and From are required.
type Config struct {
	// Server is where mail goes: smtp://[user@]host[:port] with STARTTLS, smtps://… with TLS from the start, or
	// smtp+plain://… without TLS, for a server on the same machine.
	Server string
	// Password goes with the user in Server.
	Password secret.Secret
	// From is the sender's address, with a name or without.
	From string
	// Timeout bounds a delivery whose context does not end before. Defaults to a minute.
	Timeout time.Duration
	// Idle is how many connections are kept while nothing is sent. Defaults to 16.
	Idle int
	// Roots are the authorities that may vouch for the server. Defaults to the system's.
	Roots *x509.CertPool
	// Dialer makes the connections. Defaults to the standard library's.
	Dialer httpsend.Dialer
	// BounceAddress is where mail comes back to. It needs ReturnToken. Defaults to none: to From.
	BounceAddress string
	// Unsubscribe and ReturnToken are those of [channel.Process].
	Unsubscribe func(userID, category string) string
	ReturnToken func(notificationID, address string) string
}

// Checker checks notifications for e-mail.
type Checker struct{}

// Sender delivers e-mail.
type Sender struct {
	Checker
	from   *mail.Address
	bounce *mail.Address // nil for none
	pool   *pool

	unsubscribe func(userID, category string) string        // nil for none
	returnToken func(notificationID, address string) string // likewise
}

// New makes a Sender. It fails on settings that can't be right. No error shows the password.
func New(cfg Config) (*Sender, error) {
	from, err := parseAddress(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("the sender's address %w", err)
	}
	bounce, err := cfg.bounce()
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(cfg.Server)
	if err != nil || server.Hostname() == "" || strings.Trim(server.Path, "/") != "" || server.RawQuery != "" {
		return nil, errors.New("the server must be smtp://[user@]host[:port], smtps://… or smtp+plain://…")
	}
	if _, given := server.User.Password(); given {
		return nil, errors.New("the server's URL must not hold the password: it has a setting of its own")
	}
	if cfg.Dialer == nil {
		cfg.Dialer = &net.Dialer{Timeout: 5 * time.Second}
	}
	pool := newPool(cmp.Or(cfg.Idle, 16), httpsend.NewConnections(cfg.Dialer))
	pool.password, pool.named = cfg.Password, bounce != nil
	options, err := options(cfg, server, pool)
	if err != nil {
		return nil, err
	}
	client, err := gomail.NewClient(server.Hostname(), options...)
	if err != nil {
		return nil, fmt.Errorf("the server's settings: %w", err)
	}
	pool.client = func() *gomail.Client { return client }
	return &Sender{
		from: from, bounce: bounce, pool: pool, unsubscribe: cfg.Unsubscribe, returnToken: cfg.ReturnToken,
	}, nil
}

const (
	// maxLocal is how long what stands before the @ may be.
	maxLocal = 64
	// tokenSpace is what the token and the + before it take of that.
	tokenSpace = 48
)

// bounce reads the address that mail comes back to; nil for none.
func (c Config) bounce() (*mail.Address, error) {
	if c.BounceAddress == "" {
		return nil, nil //nolint:nilnil // none is a valid setting
	}
	address, err := parseAddress(c.BounceAddress)
	if err != nil {
		return nil, fmt.Errorf("the bounce address %w", err)
	}
	local, _ := split(address.Address)
	switch {
	case len(local) > maxLocal-tokenSpace || strings.Contains(local, "+"):
		return nil, fmt.Errorf("the bounce address must have at most %d characters before the @, and no +: a token of %d "+
			"follows them", maxLocal-tokenSpace, tokenSpace)
	case c.ReturnToken == nil:
		return nil, errors.New("the bounce address needs a key that signs its tokens: set --unsubscribe-key (PACER_UNSUBSCRIBE_KEY)")
	}
	return address, nil
}

// options says how to reach the server.
func options(cfg Config, server *url.URL, pool *pool) ([]gomail.Option, error) {
	secured := &tls.Config{ServerName: server.Hostname(), RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12}
	options := []gomail.Option{
		gomail.WithTimeout(cmp.Or(cfg.Timeout, time.Minute)), gomail.WithTLSConfig(secured),
		// MAIL tells as well as NOOP whether a kept connection is still there, and the end of a message is also that of
		// its transaction (RFC 5321, 4.1.1.4). That is 4 round trips for a message instead of 7.
		gomail.WithoutNoop(), gomail.WithoutRset(),
	}
	if cfg.BounceAddress != "" { // where the server can: tell of failures only, and of what failed only the header
		options = append(options, gomail.WithDSNRcptNotifyType(gomail.DSNRcptNotifyFailure))
	}
	port := 587
	switch server.Scheme {
	case "smtp":
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory), gomail.WithDialContextFunc(pool.dial))
	case "smtps":
		port = 465
		// The dialer always brings TLS along. With WithSSL the library would not look whether it does, and
		// would log in only to servers that know a way that does not show the password.
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic), gomail.WithDialContextFunc(
			func(ctx context.Context, network, address string) (net.Conn, error) {
				return pool.dialTLS(ctx, network, address, secured)
			}))
	case "smtp+plain":
		port = 25
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS), gomail.WithDialContextFunc(pool.dial))
	default:
		return nil, errors.New("the server's scheme must be smtp (STARTTLS), smtps or smtp+plain")
	}
	if server.Port() != "" {
		var err error
		if port, err = strconv.Atoi(server.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("the server's port must be between 1 and 65535")
		}
	}
	options = append(options, gomail.WithPort(port))
	if user := server.User.Username(); user != "" {
		if cfg.Password.IsZero() {
			return nil, errors.New("the server's URL names a user, but no password is set")
		}
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(user),
			gomail.WithPassword(cfg.Password.Reveal()))
	}
	return options, nil
}

// Close ends all connections, and with them the deliveries in flight. Later ones fail.
func (s *Sender) Close() error {
	s.pool.close()
	return nil
}

// CheckTarget implements [push.Checker]. A target is one address, with a name or without.
func (Checker) CheckTarget(to string) error {
	_, err := parseAddress(to)
	return err
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	if strings.ContainsAny(n.Title, "\r\n") {
		return errors.New("title: becomes the subject, so it must not hold line breaks")
	}
	someone := &mail.Address{Address: "x@example.com"}
	_, err := message(n, someone, someone)
	return err
}

// domains writes domains as the DNS and each mail server know them: xn--….
var domains = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(true))

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// split cuts an address in two. What stands before the @ may hold another one.
func split(address string) (local, domain string) {
	at := strings.LastIndexByte(address, '@')
	return address[:max(at, 0)], address[at+1:]
}

// isInternational reports whether an address holds more than ASCII, or its domain did.
func isInternational(address string) bool {
	_, domain := split(address)
	return !isASCII(address) || strings.Contains("."+strings.ToLower(domain), ".xn--")
}

// Address returns the address of a target as mail carries it: only what stands before the @ may be more than ASCII.
func Address(target string) (string, error) {
	address, err := parseAddress(target)
	if err != nil {
		return "", err
	}
	return address.Address, nil
}

// parseAddress reads one address, and writes its domain in ASCII. Its errors do not repeat it.
func parseAddress(text string) (*mail.Address, error) {
	const want = "must be an e-mail address such as ada@example.com or Ada <ada@example.com>"
	if len(text) > 512 || strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0x85 ||
			r == 0x2028 || r == 0x2029
	}) {
		return nil, errors.New(want)
	}
	address, err := mail.ParseAddress(text)
	if err != nil {
		return nil, errors.New(want)
	}
	local, domain := split(address.Address)
	if !isASCII(domain) {
		domain, err = domains.ToASCII(domain)
	}
	if err != nil || len(local) > maxLocal || len(domain) > 253 || domain == "" {
		return nil, errors.New(want)
	}
	address.Address = local + "@" + domain
	// The standard library encodes a name with a backslash so that nobody can read it, not even itself.
	address.Name = line(strings.ReplaceAll(address.Name, `\`, " "))
	return address, nil
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	if err := ctx.Err(); err != nil {
		return (&httpsend.Trace{}).Classify(err)
	}
	to, err := parseAddress(m.To)
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	message, err := message(m.Notification, s.from, to)
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	s.address(message, m.Notification, to)
	failure := s.pool.send(ctx, message, m.Notification, to.Address)
	if failure == nil {
		return nil
	}
	return failure
}

// address writes how the user unsubscribes, and where the mail comes back to.
func (s *Sender) address(message *gomail.Msg, n *notification.Notification, to *mail.Address) {
	if s.unsubscribe != nil {
		if link := s.unsubscribe(n.UserID, n.Category); link != "" {
			message.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+link+">")
			message.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
		}
	}
	if s.bounce != nil {
		local, domain := split(s.bounce.Address)
		token := s.returnToken(n.ID, to.Address)
		message.EnvelopeFromMailAddress(&mail.Address{Address: local + "+" + token + "@" + domain})
	}
}
