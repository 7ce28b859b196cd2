package app

import (
	"context"
	"net/http"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// Hooks change parts of a process while [New] puts it together. All of them are optional. Released programs use none;
// a fault scenario takes a protection away, to be seen failing without it.
type Hooks struct {
	deployment.Hooks
	// Targets and API change settings before they are used: of the calls to targets that producers name, and of the
	// API's server.
	Targets func(*httpsend.GuardedConfig)
	API     func(*http.Server)
	// Sender, Dispatch and Service replace a part, or return it as it is: the sender of each channel, the store as the
	// workers see it, and each service.
	Sender   func(push.Sender) push.Sender
	Dispatch func(dispatch.Store) dispatch.Store
	Service  func(Service) Service
}

// Service is what a process does in the background until ctx ends.
type Service interface{ Run(ctx context.Context) }

func (h Hooks) withDefaults() Hooks {
	h.Targets, h.API = orLeave(h.Targets), orLeave(h.API)
	h.Sender, h.Dispatch, h.Service = orKeep(h.Sender), orKeep(h.Dispatch), orKeep(h.Service)
	return h
}

func orLeave[T any](change func(*T)) func(*T) {
	if change == nil {
		return func(*T) {}
	}
	return change
}

func orKeep[T any](replace func(T) T) func(T) T {
	if replace == nil {
		return func(part T) T { return part }
	}
	return replace
}
