package redisconn

import "testing"

func TestOnlyKnownOldVersionsAreTooOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"6.2.14": true, "5": true, "7.0.0": false, "8.1": false, "10.0": false, "": false, "unknown": false,
	} {
		if got := olderThan7(version); got != want {
			t.Errorf("version %q is too old: %t, want %t", version, got, want)
		}
	}
}
