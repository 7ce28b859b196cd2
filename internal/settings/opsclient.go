package settings

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// OpsClient says where a command finds the ops pages of a running process, and what it shows them.
type OpsClient struct {
	// OpsListen is HOST:PORT or a URL. Defaults to 127.0.0.1:8081.
	OpsListen string `name:"ops-listen" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address of the ops pages: HOST:PORT, or a URL such as https://ops.example.com/pacer. Default: ${default}."`
	// OpsCA is a PEM file with the authorities that may have signed the certificate there. Defaults to the system's.
	OpsCA string `name:"ops-ca" placeholder:"FILE" help:"PEM file with the certificate authorities to trust for an https URL. Default: the system's."`
	// OpsToken is the bearer token. On a command line it would show in the list of processes, so it must be file:PATH
	// there.
	OpsToken string `name:"ops-token" placeholder:"file:PATH" json:"-" help:"Bearer token of the ops pages: file:PATH on the command line; the token itself in the environment."`
	// OpsTokenFile is a file with the bearer token. Defaults to none.
	OpsTokenFile string `name:"ops-token-file" placeholder:"FILE" help:"File with the bearer token of the ops pages."`
}

// Ops are the ops pages of a process as a command reaches them.
type Ops struct {
	// URL is their base, without a slash at the end.
	URL string
	// Token is the bearer token; empty for none.
	Token string
	// Roots are the authorities that are trusted; nil for the system's.
	Roots *x509.CertPool
}

// String shows the settings without the token.
func (o OpsClient) String() string {
	return shown("ops-listen", o.OpsListen, "ops-ca", o.OpsCA, "ops-token", hidden(o.OpsToken), "ops-token-file",
		o.OpsTokenFile)
}

// GoString is String, for %#v.
func (o OpsClient) GoString() string { return o.String() }

// LogValue is String, for slog.
func (o OpsClient) LogValue() slog.Value { return slog.StringValue(o.String()) }

// String shows where the pages are, and not the token.
func (o Ops) String() string { return shown("url", o.URL, "token", hidden(o.Token)) }

// GoString is String, for %#v.
func (o Ops) GoString() string { return o.String() }

// LogValue is String, for slog.
func (o Ops) LogValue() slog.Value { return slog.StringValue(o.String()) }

// AfterApply refuses a token that the command line shows to everybody on the machine.
func (o *OpsClient) AfterApply(ctx *kong.Context) error {
	for _, part := range ctx.Path {
		if part.Flag != nil && part.Flag.Name == "ops-token" && !part.Resolved &&
			!strings.HasPrefix(o.OpsToken, credentialFile) {
			return &UsageError{Setting: "--ops-token", Message: "would show the token to everybody who lists the " +
				"processes: use --ops-token-file FILE or the environment variable PACER_OPS_TOKEN"}
		}
	}
	return nil
}

// Resolve checks the settings and reads the files that they name. The error joins everything that is refused, each a
// [*UsageError].
func (o *OpsClient) Resolve() (*Ops, error) {
	base, addressErr := o.base()
	token, tokenErr := o.token()
	roots, rootsErr := o.roots(base)
	if err := errors.Join(addressErr, tokenErr, rootsErr); err != nil {
		return nil, err
	}
	return &Ops{URL: base, Token: token, Roots: roots}, nil
}

// base turns what a process listens on, or a URL, into the URL that can be asked: 0.0.0.0 and no host mean this one.
func (o *OpsClient) base() (string, error) {
	if strings.Contains(o.OpsListen, "://") {
		return o.baseOfURL()
	}
	host, port, err := net.SplitHostPort(o.OpsListen)
	if err != nil || port == "" || strings.ContainsAny(host, "/@") {
		return "", refuse("ops-listen", "must be HOST:PORT, or a URL such as https://ops.example.com/pacer; is %s",
			quoted(o.OpsListen))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func (o *OpsClient) baseOfURL() (string, error) {
	base, err := readURL(o.OpsListen)
	switch {
	case err != nil, base.Host == "":
		return "", refuse("ops-listen", "is not a URL such as https://ops.example.com/pacer")
	case base.Scheme != "http" && base.Scheme != "https":
		return "", refuse("ops-listen", "must begin with http:// or https://, not %s://", base.Scheme)
	case base.User != nil:
		return "", refuse("ops-listen", "must not hold a user or a password: use --ops-token-file")
	case base.RawQuery != "" || base.Fragment != "":
		return "", refuse("ops-listen", "must end with the path of the pages, without ? and #")
	}
	return strings.TrimRight(base.String(), "/"), nil
}

func (o *OpsClient) token() (string, error) {
	if o.OpsTokenFile == "" {
		token := o.OpsToken
		err := readCredential("ops-token", &token)
		return token, err
	}
	token := credentialFile + o.OpsTokenFile
	err := readCredential("ops-token-file", &token)
	return token, err
}

// roots reads the authorities. Naming some for plain http would promise what it can't keep.
func (o *OpsClient) roots(base string) (*x509.CertPool, error) {
	if o.OpsCA == "" {
		return nil, nil //nolint:nilnil // the system's
	}
	if base != "" && !strings.HasPrefix(base, "https://") {
		return nil, refuse("ops-ca", "needs an https:// URL in --ops-listen")
	}
	text, err := os.ReadFile(o.OpsCA)
	if err != nil {
		return nil, refuse("ops-ca", "can't be read: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, refuse("ops-ca", "holds no certificate in PEM: %s", o.OpsCA)
	}
	return roots, nil
}
