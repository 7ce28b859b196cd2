// Command pictures makes the picture of README.md, docs/img/dashboard.png: the dashboard of dispatcher demo, after five
// minutes of its traffic. Run it in the top folder of the project. It needs Chromium, which make install-servers
// installs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	page          = "127.0.0.1:18081" // the demo's dashboard
	after         = 5 * time.Minute   // until the picture is taken: the charts show so much
	startPatience = 20 * time.Second  // until the demo listens
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, filepath.Join("docs", "img", "dashboard.png"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// run builds the dispatcher, runs its demo, and writes a picture of the dashboard.
func run(ctx context.Context, path string) error {
	folder, err := os.MkdirTemp("", "pacer-pictures-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary one
	program := filepath.Join(folder, "dispatcher")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/dispatcher") //nolint:gosec // a path of our own
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the dispatcher: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, after+startPatience+time.Minute)
	defer cancel()
	demo := exec.CommandContext(ctx, program, //nolint:gosec // it was built here
		"demo", "--listen", "127.0.0.1:0", "--ops-listen", page, "--log-level", "error")
	demo.Cancel = func() error { return demo.Process.Signal(syscall.SIGTERM) }
	demo.Stderr = os.Stderr
	if err := demo.Start(); err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	picture, err := photograph(ctx, "http://"+page+"/")
	cancel()
	_ = demo.Wait() // it was told to stop
	if err != nil {
		return err
	}
	return os.WriteFile(path, picture, 0o644) //nolint:gosec // a picture for everybody
}

// photograph opens a page once it is there, looks at it for a while, and takes the picture then.
func photograph(ctx context.Context, url string) ([]byte, error) {
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has no sandbox
	}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(options...))
	defer cancel()
	open := func() error { return chromedp.Do(ctx, chromedp.EmulateViewport(1280, 1100), chromedp.Navigate(url)) }
	err := open()
	for start := time.Now(); err != nil; err = open() {
		if time.Since(start) > startPatience || ctx.Err() != nil {
			return nil, fmt.Errorf("open the dashboard in Chromium: %w", err)
		}
		<-time.After(100 * time.Millisecond)
	}
	<-time.After(after)
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, fmt.Errorf("take the picture: %w", err)
	}
	return picture, nil
}
