package ops

import (
	"errors"
	"io"
	"net/http"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/plural"
)

// policyPage is what the page about the policy shows.
type policyPage struct {
	Policy
	PolicyContent
	// One says that all processes have the same policy, Versions which has which when they differ; both are empty while
	// nobody can tell.
	One      string
	Versions *Table
	// Diff is what another policy would change, Fault why that can't be told. Both are empty before anybody asked.
	Diff  *desk.PolicyDiff
	Fault string
}

// policyPage serves the policy in force, as tables.
func (h *handler) policyPage(w http.ResponseWriter, r *http.Request) {
	h.writePage(w, r, http.StatusOK, framed("policy"), h.policyShown(r))
}

func (h *handler) policyShown(r *http.Request) *policyPage {
	content := &policyPage{Policy: h.cfg.Policy(), PolicyContent: h.cfg.PolicyContent()}
	latest, err := h.cfg.Live.Latest(r.Context())
	switch {
	case err != nil: // the page shows what this process knows
	case len(versions(latest.Processes)) > 1:
		content.Versions = &Table{Head: []string{"Process", "Version", "File"}}
		for _, p := range latest.Processes {
			if p.Policy != nil {
				content.Versions.Rows = append(content.Versions.Rows, []string{p.ID, p.Policy.Version, p.Policy.File})
			}
		}
	default:
		content.One = plural.Of(len(latest.Processes), "process has it", "processes have it")
	}
	return content
}

// comparePolicy serves the same page, with what a policy file would change.
func (h *handler) comparePolicy(w http.ResponseWriter, r *http.Request) {
	content := h.policyShown(r)
	diff, err := h.diffOf(w, r)
	if refusal, ok := errors.AsType[*desk.RefusalError](err); ok {
		content.Fault = refusal.Reason
	} else if err != nil {
		h.unavailable(w, r, err)
		return
	}
	content.Diff = diff
	h.writePage(w, r, http.StatusOK, framed("policy"), content)
}

// diffOf compares the policy in force with the file of a form.
func (h *handler) diffOf(w http.ResponseWriter, r *http.Request) (*desk.PolicyDiff, error) {
	r.Body = http.MaxBytesReader(w, r.Body, 2*maxPolicyBytes)
	file, _, err := r.FormFile("file")
	if err != nil {
		return nil, &desk.RefusalError{Reason: "a policy file of at most 1 MiB is needed", Err: err}
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxPolicyBytes))
	if err != nil {
		return nil, &desk.RefusalError{Reason: "the file could not be read", Err: err}
	}
	return h.cfg.DiffPolicy(r.Context(), text)
}
