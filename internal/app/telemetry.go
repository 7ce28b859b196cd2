package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/version"
)

// wanted reports whether the environment asks for a signal of OpenTelemetry, TRACES or METRICS.
func wanted(signal string) bool {
	exporter := os.Getenv("OTEL_" + signal + "_EXPORTER")
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || exporter == "none" {
		return false
	}
	return exporter == "otlp" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// openTelemetry exports traces and metrics over OTLP/HTTP as the OTEL_ variables say, where they ask for these.
// Whatever is wrong with them, the process delivers.
func (a *App) openTelemetry(ctx context.Context) error {
	traces, metrics := wanted("TRACES"), wanted("METRICS")
	if !traces && !metrics {
		return nil
	}
	reportTelemetry(a.log)
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "pacer"), attribute.String("service.version", version.Current().Version),
		attribute.String("service.instance.id", uuid.NewString()),
	), resource.WithFromEnv())
	if err != nil { // it says what it could find out
		a.log.WarnContext(ctx, "telemetry describes this process in part only: see the OTEL_ variables", "error", err)
	}
	t := telemetry{about: about}
	if traces {
		if err := t.exportTraces(ctx); err != nil {
			a.log.WarnContext(ctx, "there are no traces: they can't be exported as the OTEL_ variables say", "error", err)
		} else {
			a.tracer = &tracer{t.spans, func(userID, category string) throttle.Plan {
				return a.deployment.Agendas.SettingsOf(userID, category).Plan
			}}
		}
	}
	if metrics {
		if err := t.exportMetrics(ctx, a.registry); err != nil {
			a.log.WarnContext(ctx, "no metrics are exported: they can't be as the OTEL_ variables say", "error", err)
		}
	}
	a.defers("telemetry", func() error {
		if err := t.close(ctx); err != nil {
			a.log.WarnContext(ctx, "could not export the last traces or metrics", "error", err)
		}
		return nil
	})
	return nil
}

// telemetry exports what happens in this process. about describes the process.
type telemetry struct {
	about *resource.Resource
	spans trace.Tracer
	ends  []func(context.Context) error
}

// exportTraces makes spans, which are exported.
func (t *telemetry) exportTraces(ctx context.Context) error {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return fmt.Errorf("set up the exporter of traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(t.about))
	t.spans, t.ends = provider.Tracer("github.com/pacer-notify/pacer"), append(t.ends, provider.Shutdown)
	return nil
}

// exportMetrics exports what /metrics shows, under the same names.
func (t *telemetry) exportMetrics(ctx context.Context, all prometheus.Gatherer) error {
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return fmt.Errorf("set up the exporter of metrics: %w", err)
	}
	producer := prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(all))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.about),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(producer))))
	t.ends = append(t.ends, provider.Shutdown)
	return nil
}

// close exports what is left.
func (t *telemetry) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var faults []error
	for _, end := range t.ends {
		faults = append(faults, end(ctx))
	}
	return errors.Join(faults...)
}

// reportTelemetry has OpenTelemetry report its problems in this log.
func reportTelemetry(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reports a problem with traces or metrics", "error", err)
	}))
	otel.SetLogger(logr.FromSlogHandler(withoutValues{log.Handler()}))
}

// withoutValues leaves the values out of lines about variables that can't be read: they may be credentials.
type withoutValues struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h withoutValues) Handle(ctx context.Context, r slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "OpenTelemetry: "+r.Message, r.PC))
}
