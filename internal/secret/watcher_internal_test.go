package secret

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kept is a secret in a file, as its user has it, under a watcher whose looks the test makes.
type kept struct {
	*Watcher

	t     *testing.T
	path  string
	value string
	log   *strings.Builder
}

func keep(t *testing.T, text string) *kept {
	t.Helper()
	k := &kept{t: t, path: filepath.Join(t.TempDir(), "secret"), value: text, log: &strings.Builder{}}
	k.write(text)
	k.Watcher = NewWatcher([]Source{{Name: "token", Files: Look(k.path), Renew: func(context.Context) error {
		text, err := ReadFile(k.path)
		if err == nil && !strings.HasSuffix(text, ".") {
			err = errors.New("is cut off")
		}
		if err == nil {
			k.value = text
		}
		return err
	}}, {Name: "constant"}}, slog.New(slog.NewTextHandler(k.log, nil)))
	return k
}

func (k *kept) write(text string) {
	k.t.Helper()
	if err := os.WriteFile(k.path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// wait looks, and looks again as often as the watcher wants to.
func (k *kept) wait() {
	for again := k.look(k.t.Context()); again > 0; again = k.look(k.t.Context()) {
		<-time.After(again)
	}
}

func (k *kept) want(value, refused string) {
	k.t.Helper()
	state := k.States()[0]
	if k.value != value || !strings.Contains(state.Refused, refused) || (refused == "") != (state.Refused == "") ||
		(refused == "") != state.RefusedAt.IsZero() {
		k.t.Errorf("in force is %q, refused %q at %s; want %q and %q", k.value, state.Refused, state.RefusedAt, value, refused)
	}
}

func TestASecretFollowsItsFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, "one.")
		if k.wait(); k.log.Len() > 0 || len(k.States()) != 1 {
			t.Errorf("nothing changed, and the log says %s; states %v", k.log, k.States())
		}
		k.write("two.")
		k.wait()
		k.want("two.", "")
		if !strings.Contains(k.log.String(), "the new value is in force") {
			t.Errorf("the log says %s", k.log)
		}
	})
}

// A file that is being written holds half a secret, which may look like a whole one.
func TestASecretIsReadOnceItsFileStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, "one.")
		for _, half := range []string{"t.", "tw.", "two."} {
			k.write(half)
			if again := k.look(t.Context()); again != settle {
				t.Fatalf("after a change it looks again in %s, want %s", again, settle)
			}
			<-time.After(settle - 1)
			k.want("one.", "")
		}
		k.wait()
		k.want("two.", "")
	})
}

func TestASecretStaysWhatBecomesOfItsFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, refused string
		change        func(k *kept)
	}{
		{name: "CutOff", refused: "is cut off", change: func(k *kept) { k.write("tw") }},
		{name: "Empty", refused: "is cut off", change: func(k *kept) { k.write("") }},
		{name: "Gone", refused: "no such file", change: func(k *kept) { _ = os.Remove(k.path) }},
		{name: "TooLong", refused: "more than 65536 bytes", change: func(k *kept) { k.write(strings.Repeat("x", MaxFile+1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := keep(t, "one.")
				c.change(k)
				k.wait()
				k.wait()
				k.want("one.", c.refused)
				if told := strings.Count(k.log.String(), "level=ERROR"); told != 1 {
					t.Errorf("the log tells %d times: %s", told, k.log)
				}
				k.write("one.")
				k.wait()
				k.want("one.", "")
				k.write("two.")
				k.wait()
				k.want("two.", "")
			})
		})
	}
}

// What refuses a value may be a server that does not know it yet.
func TestARefusedSecretIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, "one.")
		refuse, renew := true, k.sources[0].Renew
		k.sources[0].Renew = func(ctx context.Context) error {
			if refuse {
				return errors.New("WRONGPASS")
			}
			return renew(ctx)
		}
		k.write("two.")
		k.wait()
		k.want("one.", "WRONGPASS")
		refuse = false
		k.wait()
		k.want("two.", "")
	})
}

// Kubernetes shows a secret as links to a directory that it replaces as a whole.
func TestASecretFollowsTheLinksOfKubernetes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	publish := func(version, text string) {
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, version), 0o700),
			os.WriteFile(filepath.Join(dir, version, "token"), []byte(text), 0o600),
			os.Symlink(version, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("..1", "one")
	path := filepath.Join(dir, "token")
	if err := os.Symlink(filepath.Join("..data", "token"), path); err != nil {
		t.Fatal(err)
	}
	values := make(chan string, 10)
	k := NewWatcher([]Source{{Name: "token", Files: Look(path), Renew: func(context.Context) error {
		text, err := ReadFile(path)
		values <- text
		return err
	}}}, slog.New(slog.DiscardHandler))
	k.watch.PollInterval = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	for _, version := range []string{"two", "three"} {
		publish(".."+version, version)
		if got := <-values; got != version {
			t.Errorf("in force is %q, want %q", got, version)
		}
	}
}
