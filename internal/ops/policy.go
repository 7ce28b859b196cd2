package ops

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// maxPolicyBytes is how much of a policy is read: a byte more than one may have, so that its reader refuses it.
const maxPolicyBytes = 1<<20 + 1

// Policy says which policy a process has in force.
type Policy struct {
	// Version is a short hash of its text, File where it was read, LoadedAt when it came into force.
	Version  string    `json:"version"`
	File     string    `json:"file"`
	LoadedAt time.Time `json:"loaded_at"`
	// Refused is why the file as it is now is not in force, RefusedAt since when; absent when it is.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refused_at,omitzero"`
	// RefusedVersion is the hash of the text that was refused; absent when the file could not be read.
	RefusedVersion string `json:"refused_version,omitempty"`
}

// PolicyContent is what a policy says: its YAML, what one user may get, how deliveries are tried, and quiet hours.
type PolicyContent struct {
	Text               string
	Limits, Deliveries Table
	Hours              string
}

// Table is a table for people.
type Table struct {
	Head []string
	Rows [][]string
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
	in := PolicyInForce{Policy: h.cfg.Policy(), Text: h.cfg.PolicyContent().Text}
	latest, err := h.cfg.Live.Latest(r.Context())
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	in.Processes = latest.Processes
	h.writeJSON(w, r, in)
}

// diffPolicy serves POST /policy/diff: for the text of a policy, a [desk.PolicyDiff].
func (h *handler) diffPolicy(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPolicyBytes))
	if err != nil {
		plain(w, http.StatusRequestEntityTooLarge, "a policy file has at most 1 MiB")
		return
	}
	diff, err := h.cfg.DiffPolicy(r.Context(), text)
	h.respond(w, r, diff, err)
}

// forcePolicy serves POST /policy/force: the version of a policy.
func (h *handler) forcePolicy(w http.ResponseWriter, r *http.Request) {
	version, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxText))
	if err != nil || len(version) == 0 {
		plain(w, http.StatusBadRequest, "the body must be the version of a policy")
		return
	}
	if err := h.cfg.ForcePolicy(r.Context(), string(version)); err != nil {
		h.unavailable(w, r, err)
		return
	}
	h.audit(r, "force policy", string(version), "")
	h.writeJSON(w, r, Done{Done: "policy " + string(version) + " is forced"})
}
