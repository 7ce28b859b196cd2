package deployment_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/settings"
)

// The runbook says how long a notification may take under the built-in policy, by its channel.
func TestTheRunbookSaysHowLongANotificationMayTake(t *testing.T) {
	t.Parallel()
	rules := &deployment.Rules{Policy: effective.New(policy.Default), Set: channel.Set{}}
	for _, d := range (settings.Channels{}).All() {
		rules.Set[d.Name] = channel.Deployed{Descriptor: d}
	}
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## PacerUnended\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.Join(strings.Fields(section), " ") // whatever the ends of its lines
	for name := range rules.Set {
		life := rules.MaxLife(policy.DefaultCategory, name)
		if days := fmt.Sprintf("%.0f days", life.Hours()/24); !strings.Contains(section, days) {
			t.Errorf("the runbook does not say that %s takes %s, %s", name, days, life)
		}
	}
}
