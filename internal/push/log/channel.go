package log

import (
	"log/slog"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
)

// Settings of the channel. There are none.
type Settings struct{}

// Channel describes the channel.
func (Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       notification.ChannelLog,
		Configured: true,
		MaxContent: 256 << 10,
		Local:      true,
		NewChecker: func(channel.Surroundings) push.Checker { return New(slog.Default()) },
		Open:       func(process channel.Process) (push.Sender, error) { return New(process.Log), nil },
	}
}
