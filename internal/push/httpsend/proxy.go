package httpsend

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/secret"
)

// ProxyConfig says through which proxy a provider is called.
type ProxyConfig struct {
	// URL is http://[user:password@]host[:port], or https:// where the connection to the proxy is to be secured.
	// Defaults to none: the provider is called without a proxy.
	URL secret.Secret
	// Setting names the setting that holds the URL, for errors.
	Setting string
	// Roots are the authorities that may vouch for a proxy with https. Default to the system's.
	Roots *x509.CertPool
	// Timeout bounds the making of a tunnel, the connection to the proxy included. Defaults to 5 s.
	Timeout time.Duration
}

// CheckProxy reports whether a text is a proxy's URL, or empty. It never shows the text, which may hold a password.
func CheckProxy(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return errors.New("must be a URL such as http://user:password@proxy.example.com:3128, http or https, without a path")
	}
	return nil
}

// CheckEndpoint reports whether a text is a provider's base URL with one of the schemes, or empty.
func CheckEndpoint(text string, schemes ...string) error {
	u, err := url.Parse(text)
	if text != "" && (err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "") {
		return fmt.Errorf("must be an %s URL without credentials and query", strings.Join(schemes, " or "))
	}
	return nil
}

// proxy makes connections through an HTTP proxy: tunnels by CONNECT. What goes through them is for the provider alone.
type proxy struct {
	address string
	secured *tls.Config // nil for http
	login   string      // of the header Proxy-Authorization; empty for none
	dialer  Dialer
	setting string
	timeout time.Duration
}

// Through returns the dialer to use: dialer itself where no proxy is set, else one that goes through the proxy.
func (c ProxyConfig) Through(dialer Dialer) (Dialer, error) {
	if c.URL.IsZero() {
		return dialer, nil
	}
	if err := CheckProxy(c.URL.Reveal()); err != nil {
		return nil, fmt.Errorf("the proxy %w", err)
	}
	u, _ := url.Parse(c.URL.Reveal()) // CheckProxy has read it
	p := &proxy{dialer: dialer, setting: c.Setting, timeout: cmp.Or(c.Timeout, 5*time.Second)}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		p.secured = &tls.Config{RootCAs: c.Roots, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	p.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	if u.User != nil {
		password, _ := u.User.Password()
		p.login = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// DialContext makes a tunnel.
func (p *proxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	conn, err := p.dialer.DialContext(limited, network, p.address)
	if err != nil {
		return nil, p.unreached(ctx, err)
	}
	// Whatever waits for the proxy ends with the context.
	stop := context.AfterFunc(limited, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := p.open(limited, conn, address)
	if !stop() && err == nil {
		err = context.Cause(limited) // the deadline may stand in the connection now
	}
	if err != nil {
		_ = conn.Close()
		return nil, p.unreached(ctx, err)
	}
	return tunnel, nil
}

// unreached tells of a tunnel that was not made, unless the caller wanted none any more.
func (p *proxy) unreached(ctx context.Context, err error) error {
	if _, refused := errors.AsType[*ProxyError](err); refused {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &ProxyError{Setting: p.setting, Err: err}
}

// open has the proxy connect a connection with the provider.
func (p *proxy) open(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	if p.secured != nil {
		secured := tls.Client(conn, p.secured)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	}
	request := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{"User-Agent": {"pacer"}},
	}
	if p.login != "" {
		request.Header.Set("Proxy-Authorization", p.login)
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(io.LimitReader(conn, maxReplyHeader))
	// A tunnel's response has no body, and after a refusal the connection is closed.
	response, err := http.ReadResponse(reader, request) //nolint:bodyclose // to close it would read a refusal's text
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode/100 != 2:
		read := ResponseOf(response)
		return nil, &ProxyError{Setting: p.setting, Status: read.Status, RetryAfter: read.RetryAfter}
	case reader.Buffered() > 0: // a provider speaks after pacer does
		return nil, errors.New("it sends something before the provider can")
	}
	return conn, nil
}

// ProxyError says that a proxy made no connection with the provider. Nothing was sent to the provider then.
type ProxyError struct {
	// Setting names the setting with the proxy's URL.
	Setting string
	// Status is what the proxy responded; 0 when it did not respond.
	Status int
	// RetryAfter is when the proxy wants to be asked again; 0 when it did not say.
	RetryAfter time.Duration
	// Err is why there was no response.
	Err error
}

// Error names the setting, and never the user and password in it.
func (e *ProxyError) Error() string {
	switch {
	case e.Status == http.StatusProxyAuthRequired:
		return fmt.Sprintf("the proxy of %s responds with 407: it wants another user and password in that URL", e.Setting)
	case e.Status != 0:
		return fmt.Sprintf("the proxy of %s responds with %d and makes no connection; see what it allows, or name another",
			e.Setting, e.Status)
	case isTimeout(e.Err):
		return fmt.Sprintf("the proxy of %s does not respond in time", e.Setting)
	}
	return fmt.Sprintf("the proxy of %s cannot be reached: %v", e.Setting, e.Err)
}

// Unwrap returns why there was no response.
func (e *ProxyError) Unwrap() error { return e.Err }

// failure says what a missing connection means. A refusal concerns everybody and costs nobody an attempt. A proxy that
// does not respond is like a provider that does not.
func (e *ProxyError) failure() *push.Error {
	failure := &push.Error{Class: push.Transient, Concerns: push.ConcernsHost, Code: "proxy", Unsent: true, Err: e}
	switch {
	case e.Status == 0 && isTimeout(e.Err):
		failure.Code = "proxy.timeout"
	case e.Status == 0:
	case e.Status/100 == 4 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests:
		failure.Class, failure.Concerns = push.CredentialsRefused, push.ConcernsEverybody
	default:
		failure.Class, failure.Concerns, failure.RetryAfter = push.Throttled, push.ConcernsEverybody, e.RetryAfter
	}
	if e.Status != 0 {
		failure.Code = "proxy." + strconv.Itoa(e.Status)
	}
	return failure
}
