package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
)

// largePolicy is a policy file of 200 categories, each with every key.
func largePolicy() []byte {
	var text strings.Builder
	text.WriteString("version: 1\nbypass_priority: critical\nuser_cap:\n  limits: [{max: 60, per: 1h}]\ncategories:\n")
	text.WriteString("  default: {}\n")
	for i := range 199 {
		fmt.Fprintf(&text,
			"  category-%d:\n    algorithm: rolling\n    limits: [{max: 1, per: 3s}, {max: %d, per: 24h}]\n", i, 10+i)
		text.WriteString("    min_gap: 2s\n    max_defer: 12h\n    bypass: false\n")
	}
	return []byte(text.String())
}

// A policy file is read again whenever it changes.
func BenchmarkParse(b *testing.B) {
	text := largePolicy()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if p, err := policy.Parse("policy.yaml", text); err != nil || len(p.Categories) != 200 {
			b.Fatalf("%d categories, %v", len(p.Categories), err)
		}
	}
}

// The plan of a notification is looked up for every decision of the limiter.
func BenchmarkPlan(b *testing.B) {
	p, err := policy.Parse("policy.yaml", largePolicy())
	if err != nil {
		b.Fatal(err)
	}
	own, err := policy.ParseLimits([]byte(`{"limits": [{"max": 1, "per": "1h"}], "min_gap": "5m"}`))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("OfThePolicy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c, known := p.Category("category-150")
			if !known || p.BypassFrom(c) == 0 || len(c.Plan.Rules) != 4 {
				b.Fatalf("the category is %+v", c)
			}
		}
	})
	b.Run("WithOwnLimits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c, known := p.Category("category-150")
			if plan := c.Plan.WithOwnLimits(own); !known || len(plan.Rules) != 3 {
				b.Fatalf("the plan is %+v", plan)
			}
		}
	})
}
