package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	// loadFor is how long the load runs before the picture is taken: the charts show five minutes, and the invariant
	// checker first goes through a store on Redis after ten.
	loadFor = 10*time.Minute + 20*time.Second
	// startPatience is how long a process may take to listen.
	startPatience = 20 * time.Second
	apiAddress    = "127.0.0.1:18080"
	opsAddress    = "127.0.0.1:18081"
)

// picturePolicy has limits such as a shop would set. Its night has begun an hour ago, and holds newsletters.
func picturePolicy(now time.Time) string {
	now = now.UTC()
	return fmt.Sprintf(`
version: 1
windows:
  night: {closed: [{from: %q, to: %q}]}
quiet_hours: {window: night, spread: 90m}
categories:
  default: {limits: [{max: 10, per: 1m}], min_gap: 3s, quiet_hours: {then: off}}
  orders: {limits: [{max: 3, per: 1m}], quiet_hours: {then: off}}
  chat: {limits: [{max: 1, per: 3s}, {max: 100, per: 24h}], quiet_hours: {then: off}}
  newsletter: {limits: [{max: 1, per: 5m}]}
  security: {bypass: true}
user_cap: {limits: [{max: 20, per: 5m}]}
`, now.Add(-time.Hour).Format("15:04"), now.Add(9*time.Hour).Format("15:04"))
}

// drawDashboard runs two dispatchers on a Redis, puts them under load, and takes a picture of the dashboard.
func drawDashboard(ctx context.Context, program, folder string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	socket := filepath.Join(folder, "redis.sock")
	stopAll, err := startDeployment(ctx, program, folder, socket)
	defer stopAll()
	defer cancel()
	if err != nil {
		return nil, err
	}
	receiver, err := receive(ctx)
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() { failed <- load(ctx, "http://"+apiAddress, receiver) }()
	return photograph(ctx, "http://"+opsAddress+"/", failed)
}

// startDeployment starts Redis and two dispatchers. What it gives back stops them, also after an error.
func startDeployment(ctx context.Context, program, folder, socket string) (stop func(), err error) {
	var started []*exec.Cmd
	stop = func() {
		for _, process := range slices.Backward(started) {
			_ = process.Wait() // the end of ctx told it to stop
		}
	}
	policy := filepath.Join(folder, "policy.yaml")
	if err := os.WriteFile(policy, []byte(picturePolicy(time.Now())), 0o600); err != nil {
		return stop, fmt.Errorf("write the policy: %w", err)
	}
	common := []string{
		"--redis-url", "unix://" + socket, "--policy", policy, "--log-level", "warn", "--webhook-allow", "127.0.0.0/8",
	}
	for _, command := range [][]string{
		{
			"redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--appendonly", "yes",
			"--maxmemory", "256mb",
		},
		append([]string{program, "--listen", apiAddress, "--ops-listen", opsAddress}, common...),
		append([]string{program, "--roles", "worker"}, common...),
	} {
		process := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // commands of our own
		process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
		process.WaitDelay = startPatience
		process.Stderr = os.Stderr
		if err := process.Start(); err != nil {
			return stop, fmt.Errorf("start %s: %w", command[0], err)
		}
		started = append(started, process)
		if command[0] == "redis-server" {
			err = awaitListener(ctx, "unix", socket)
		} else {
			err = awaitListener(ctx, "tcp", apiAddress)
		}
		if err != nil {
			return stop, err
		}
	}
	return stop, nil
}

// awaitListener waits until something listens.
func awaitListener(ctx context.Context, network, address string) error {
	for deadline := time.Now().Add(startPatience); ; {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("nothing listens on %s: %w", address, err)
		}
	}
}

// photograph looks at the page for as long as the load runs, and takes the picture then.
func photograph(ctx context.Context, url string, failed <-chan error) ([]byte, error) {
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has no sandbox
	}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(options...))
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 1100), chromedp.Navigate(url)); err != nil {
		return nil, fmt.Errorf("open the dashboard in Chromium: %w", err)
	}
	select {
	case <-time.After(loadFor):
	case err := <-failed:
		return nil, errors.Join(errors.New("the load ended early"), err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, fmt.Errorf("take the picture: %w", err)
	}
	return picture, nil
}
