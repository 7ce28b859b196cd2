//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is not the job never stops the job: neither a telemetry variable with a stray comma, nor a collector that is
// away, nor the end of whoever reads the log. And every line of the log is JSON, without the bytes of a receiver that
// says more than it was asked for.
func TestOnlyTheJobStopsTheProcess(t *testing.T) {
	t.Parallel()
	const silent = 50
	received := make(chan struct{}, 2*silent)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received <- struct{}{} }))
	defer target.Close()
	child := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--ops-listen",
		"127.0.0.1:0")
	child.Env = append(os.Environ(), asProgram+"=1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1",
		"OTEL_RESOURCE_ATTRIBUTES=team=a,,", "OTEL_EXPORTER_OTLP_HEADERS=canary,", "OTEL_TRACES_SAMPLER=sometimes")
	pipe, err := child.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	log := &jsonLog{t: t, lines: bufio.NewScanner(pipe)}
	api := log.await("the API is listening")["url"]
	log.await("the workers are ready")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func(id, to string) {
		body := fmt.Sprintf(`{"id":%q,"user_id":%q,"to":%q}`, id, id, to)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprint(api, "/v1/notifications"),
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %s", id, response.Status)
		}
	}
	post("talkative", talkative(t))
	problem := log.await("a library reports a problem")["problem"]
	if !strings.Contains(fmt.Sprint(problem), "idle HTTP channel") {
		t.Errorf("the library says %s", problem)
	}

	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	post("twice", talkative(t)) // it writes a line to the log, soon
	for i := range silent {
		post(fmt.Sprint("silent-", i), target.URL)
	}
	for i := range silent {
		select {
		case <-received:
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d were delivered", i, silent)
		}
	}
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

// talkative is a webhook target that sends more than its response.
func talkative(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err == nil {
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.WriteString(conn, "HTTP/1.1 200 canary\r\n\r\n")
		}
		_ = conn.Close()
	}()
	return "http://" + listener.Addr().String()
}

// jsonLog is the log of a process.
type jsonLog struct {
	t     *testing.T
	lines *bufio.Scanner
}

// await reads on until a line says this.
func (l *jsonLog) await(message string) map[string]any {
	l.t.Helper()
	for l.lines.Scan() {
		var line map[string]any
		if err := json.Unmarshal(l.lines.Bytes(), &line); err != nil || strings.Contains(l.lines.Text(), "canary") {
			l.t.Errorf("a line is no JSON, or quotes a receiver or a variable: %s", l.lines.Text())
		}
		if line["msg"] == message {
			return line
		}
	}
	l.t.Fatalf("the log ends before it says %q", message)
	return nil
}
