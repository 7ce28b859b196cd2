package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
)

// opsClient asks the ops pages of a running process.
type opsClient struct {
	// File may name the settings that the process runs with.
	settings.File
	settings.OpsClient
}

const (
	// opsTimeout bounds a request to the ops pages.
	opsTimeout = 10 * time.Second
	// maxOpsReply bounds what is read of a reply.
	maxOpsReply = 16 << 20
)

// errNotReachable is what every command says that finds no process to ask.
var errNotReachable = errors.New("is it running with the ops role, and is --ops-listen its address?")

// get reads a page.
func (c *opsClient) get(ctx context.Context, path string) (status int, body []byte, err error) {
	return c.ask(ctx, http.MethodGet, path, nil, http.NoBody)
}

// ask makes a request; its reply is nil unless the process responded.
func (c *opsClient) ask(ctx context.Context, method, path string, header http.Header,
	body io.Reader,
) (status int, reply []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, opsTimeout)
	defer cancel()
	to, err := c.Resolve()
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, to.URL+path, body)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the dispatcher at %s: %w", to.URL, err)
	}
	maps.Copy(request.Header, header)
	if to.Token != "" {
		request.Header.Set("Authorization", "Bearer "+to.Token)
	}
	client := opsHTTP(to)
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the dispatcher at %s: %w; %w", to.URL, errors.Unwrap(err), errNotReachable)
	}
	defer response.Body.Close()
	if target := response.Header.Get("Location"); response.StatusCode/100 == 3 && target != "" {
		return 0, nil, fmt.Errorf("the server at %s redirects to %s: set --ops-listen to the address it redirects to", to.URL,
			target)
	}
	reply, err = io.ReadAll(io.LimitReader(response.Body, maxOpsReply))
	if err != nil {
		return 0, nil, fmt.Errorf("read the response of the dispatcher at %s: %w", to.URL, err)
	}
	return response.StatusCode, reply, nil
}

// refused says why a process did not do what it was asked: a [settings.UsageError] when a value was wrong.
func refused(what string, status int, reply []byte) error {
	text := what + ": " + strings.TrimSpace(string(reply))
	if status == http.StatusUnprocessableEntity {
		return &settings.UsageError{Message: text}
	}
	return errors.New(text)
}

// opsHTTP makes a client for one address. It follows no redirect, which would turn an action into a look.
func opsHTTP(to *settings.Ops) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{RootCAs: to.Roots, MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
