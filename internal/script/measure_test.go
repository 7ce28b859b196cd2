package script_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/test/redistest"
)

// runs counts the scripts that this process has run, by their outcome.
func runs(t *testing.T) map[string]uint64 {
	t.Helper()
	metrics, counted := make(chan prometheus.Metric, 8), map[string]uint64{}
	script.Metrics().Collect(metrics)
	close(metrics)
	for metric := range metrics {
		var read dto.Metric
		if err := metric.Write(&read); err != nil {
			t.Fatal(err)
		}
		counted[read.GetLabel()[0].GetValue()] = read.GetHistogram().GetSampleCount()
	}
	return counted
}

// Every script is measured, by whether Redis ran it. Other tests run scripts meanwhile, so the counts may be higher.
func TestScriptsAreMeasured(t *testing.T) {
	t.Parallel()
	client, before := redistest.Client(t), runs(t)
	for _, source := range []string{`return 1`, `return nil`, `return redis.error_reply('NO')`} {
		script.New(source).Run(t.Context(), client, nil)
	}
	after := runs(t)
	if after["ok"] < before["ok"]+2 || after["error"] < before["error"]+1 {
		t.Errorf("before %v, after 2 scripts that ran and one that failed %v", before, after)
	}
}
