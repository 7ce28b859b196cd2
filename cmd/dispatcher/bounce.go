package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
)

const (
	// maxBounce is how much of a message is posted; what a report says stands before the message that came back.
	maxBounce = 1 << 20
	// bounceTimeout bounds the post. A mail server waits longer.
	bounceTimeout = 30 * time.Second
)

// Exit codes by which a mail server knows whether to deliver the message again (sysexits.h).
const (
	exDataErr  = 65 // the message is at fault: again is useless
	exTempFail = 75 // later it may work
)

type bounceCommand struct {
	settings.File
	settings.Client
}

// exitError is an error with an exit code.
type exitError struct {
	code int
	error
}

// ExitCode implements [kong.ExitCoder].
func (e exitError) ExitCode() int { return e.code }

// Run posts the message on standard input to the API. Whatever goes wrong with the API is tried again by the mail
// server: also a wrong token, since the message should outlive the mistake.
func (c *bounceCommand) Run(ctx context.Context, to streams) error {
	token := c.Token
	if err := settings.ReadCredential("--token (PACER_TOKEN)", &token); err != nil {
		return exitError{exTempFail, err}
	}
	message, err := io.ReadAll(io.LimitReader(os.Stdin, maxBounce))
	if err != nil {
		return exitError{exTempFail, fmt.Errorf("read the message on standard input: %w", err)}
	}
	status, reply, err := c.postBounce(ctx, token, message)
	switch {
	case err != nil:
		return exitError{exTempFail, err}
	case status == http.StatusOK:
		_, err = to.out.Write(reply)
		return err
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge,
		status == http.StatusUnprocessableEntity:
		return exitError{exDataErr, refused("pacer refused the message", status, reply)}
	}
	return exitError{exTempFail, fmt.Errorf("pacer at %s responded with status %d: %s", c.Server, status,
		strings.TrimSpace(string(reply)))}
}

// postBounce posts the message.
func (c *bounceCommand) postBounce(ctx context.Context, token string, message []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bounceTimeout)
	defer cancel()
	url := strings.TrimSuffix(c.Server, "/") + "/v1/email/bounces"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(message))
	if err != nil {
		return 0, nil, fmt.Errorf("post the message to pacer: %w", err)
	}
	request.Header.Set("Content-Type", "message/rfc822")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("post the message to pacer: %w; is --server its API?", err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxOpsReply))
	if err != nil {
		return 0, nil, fmt.Errorf("read the response of pacer at %s: %w", c.Server, err)
	}
	return response.StatusCode, reply, nil
}
