package pushtest

import (
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/pacer-notify/pacer/internal/secret"
)

// Proxy is an HTTP proxy that makes tunnels for whoever logs in, unless it is told to refuse or to hang.
type Proxy struct {
	server *httptest.Server
	over   chan struct{}
	copies sync.WaitGroup

	mu      sync.Mutex
	tunnels []string
	refuse  int
	hangs   bool
	open    []net.Conn
}

// The user and the password that a Proxy wants. The password must never show.
const (
	proxyUser     = "pacer"
	ProxyPassword = "canaryproxy5c1d"
)

// StartProxy starts a proxy, over TLS when secured.
func StartProxy(tb testing.TB, secured bool) *Proxy {
	tb.Helper()
	p := &Proxy{over: make(chan struct{})}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if secured {
		p.server.StartTLS()
	} else {
		p.server.Start()
	}
	tb.Cleanup(func() {
		close(p.over)
		p.Cut()
		p.server.Close()
		p.copies.Wait()
	})
	return p
}

// URL is the proxy's URL with user and password.
func (p *Proxy) URL() secret.Secret { return p.URLWith(ProxyPassword) }

// URLWith is the proxy's URL with another password.
func (p *Proxy) URLWith(password string) secret.Secret {
	scheme := "http"
	if p.server.TLS != nil {
		scheme = "https"
	}
	return secret.New(scheme + "://" + proxyUser + ":" + password + "@" + p.server.Listener.Addr().String())
}

// Roots vouch for the proxy's certificate.
func (p *Proxy) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	if certificate := p.server.Certificate(); certificate != nil {
		pool.AddCert(certificate)
	}
	return pool
}

// Refuse has the proxy respond with a status from now on, and make no tunnels; 0 has it make them again.
func (p *Proxy) Refuse(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = status
}

// Hang has the proxy respond to nothing from now on.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = true
}

// Cut ends all tunnels.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
}

// Tunnels lists where tunnels were made to.
func (p *Proxy) Tunnels() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tunnels)
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	refuse, hangs := p.refuse, p.hangs
	p.mu.Unlock()
	// What a client logs in with at a proxy has the form that it has at a server.
	login := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	user, password, _ := login.BasicAuth()
	switch {
	case hangs:
		select {
		case <-p.over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case refuse != 0:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(refuse)
		_, _ = io.WriteString(w, "refused: "+password)
	case r.Method != http.MethodConnect || user != proxyUser || password != ProxyPassword:
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
	default:
		p.tunnel(w, r)
	}
}

// tunnel connects whoever asks with the host that he names.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	var dialer net.Dialer
	to, err := dialer.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	p.tunnels, p.open = append(p.tunnels, r.Host), append(p.open, from, to)
	p.mu.Unlock()
	_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		p.copies.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			_, _ = ends[0].Close(), ends[1].Close()
		})
	}
}
