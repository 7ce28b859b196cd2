package enqueue

import (
	"bytes"
	"io"
	"net/http"
)

// InProcess gives a client whose requests are served by a handler in this process, whatever their host: the program
// that writes to the queue itself goes the same way as one that calls the API.
func InProcess(handler http.Handler) *http.Client {
	return &http.Client{Transport: inProcess{handler}}
}

type inProcess struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(request *http.Request) (*http.Response, error) {
	// A server's request has what a client's has not.
	served := request.Clone(request.Context())
	served.RequestURI = request.URL.RequestURI()
	served.RemoteAddr = "127.0.0.1:0"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	reply := &recorder{header: http.Header{}}
	p.handler.ServeHTTP(reply, served)
	if reply.status == 0 {
		reply.status = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(reply.status), StatusCode: reply.status, Header: reply.header, Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(&reply.body), ContentLength: int64(reply.body.Len()),
	}, nil
}

// recorder keeps what a handler responds.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}
