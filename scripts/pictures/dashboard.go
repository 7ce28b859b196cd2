package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/chromedp/chromedp"
)

// dashboardAfter is how long the demo runs before the picture is taken: the charts show five minutes.
const dashboardAfter = 5 * time.Minute

// drawDashboard runs the demo and takes a picture of its dashboard.
func drawDashboard(ctx context.Context, program string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, dashboardAfter+demoPatience)
	defer cancel()
	const address = "127.0.0.1:18081"
	demo := demoCommand(ctx, program, address)
	if err := demo.Start(); err != nil {
		return nil, fmt.Errorf("start the demo: %w", err)
	}
	picture, err := photograph(ctx, "http://"+address+"/")
	cancel()
	_ = demo.Wait() // it was told to stop
	return picture, err
}

// photograph opens a page, looks at it for dashboardAfter, and takes the picture then.
func photograph(ctx context.Context, url string) ([]byte, error) {
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has no sandbox
	}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(options...))
	defer cancel()
	var err error
	for range 50 { // until the demo listens
		<-time.After(100 * time.Millisecond)
		if err = chromedp.Do(ctx, chromedp.EmulateViewport(1280, 1100), chromedp.Navigate(url)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the dashboard in Chromium: %w", err)
	}
	<-time.After(dashboardAfter)
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, fmt.Errorf("take the picture: %w", err)
	}
	return picture, nil
}
