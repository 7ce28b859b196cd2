package ops

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Policy says which policy a process has in force.
type Policy struct {
	// Version is a short hash of its text, File where it was read, LoadedAt when it came into force.
	Version  string    `json:"version"`
	File     string    `json:"file"`
	LoadedAt time.Time `json:"loaded_at"`
	// Refused is why the file as it is now is not in force, RefusedAt since when; absent when it is.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refused_at,omitzero"`
}

// PolicyInForce is the policy of the process that tells it, and what each process of the deployment has in force.
type PolicyInForce struct {
	Policy
	Text      string    `json:"text"`
	Processes []Process `json:"processes"`
}

// versions are the versions of the policy that processes have in force, in order.
func versions(processes []Process) []string {
	found := map[string]bool{}
	for _, p := range processes {
		if p.Policy != nil {
			found[p.Policy.Version] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (h *handler) policy(w http.ResponseWriter, r *http.Request) {
	in := PolicyInForce{Policy: h.cfg.Policy(), Text: h.cfg.PolicyText()}
	latest, err := h.cfg.Live.Latest(r.Context())
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	in.Processes = latest.Processes
	h.writeJSON(w, r, in)
}
