package ops

import (
	"net/http"
	"time"
)

// writeTimeout is how long a watcher may take to read an event.
const writeTimeout = 10 * time.Second

// events streams server-sent events: first one "history", then a "snapshot" every second.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	events, done, err := h.cfg.Live.watch()
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	defer done()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // else nginx buffers the events
	connection := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case event, more := <-events:
			if !more {
				return
			}
			_ = connection.SetWriteDeadline(time.Now().Add(writeTimeout)) // a test's recorder has no deadlines
			if _, err := w.Write(event); err != nil {
				return
			}
			if connection.Flush() != nil {
				return
			}
		}
	}
}

// snapshot responds with the latest snapshot, for programs.
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) {
	s, err := h.cfg.Live.Latest(r.Context())
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	h.writeJSON(w, r, s)
}
