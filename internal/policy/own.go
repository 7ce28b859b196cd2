package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// ParseLimits reads the limits that a user sets in place of a category's: a JSON object with limits and min_gap, in the
// form of the policy file. It refuses the same values. An empty object is allowed: then only the user cap holds.
func ParseLimits(text []byte) ([]throttle.Rule, error) {
	var own struct {
		Limits []struct {
			Max int    `json:"max"`
			Per string `json:"per"`
		} `json:"limits"`
		MinGap string `json:"min_gap,omitempty"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&own); err != nil {
		return nil, errors.New(`must be of the form {"limits": [{"max": 1, "per": "1h"}], "min_gap": "5m"}`)
	}
	category, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("read the limits: %w", err)
	}
	if own.Limits == nil {
		category = bytes.Replace(category, []byte(`"limits":null`), []byte(`"limits":[]`), 1)
	}
	// JSON is YAML, so the policy's parser finds every fault.
	whole, err := Parse("", fmt.Appendf(nil, "version: 1\ncategories:\n  default: %s\n", category))
	if err != nil {
		if first, ok := errors.AsType[*Fault](err); ok {
			return nil, errors.New(strings.ReplaceAll(first.Message, "categories."+DefaultCategory+".", ""))
		}
		return nil, err
	}
	return whole.Categories[DefaultCategory].Plan.Rules, nil
}
