package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// tracesWanted reports whether the environment asks for traces.
func tracesWanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_TRACES_EXPORTER") == "otlp" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// tracer reports what becomes of each notification to OpenTelemetry. A notification has one trace, from the producer's
// request to the delivery, even days later. A span covers only time in which work is done, and is linked to earlier
// spans. Tracing is off unless the standard OTEL_ variables name an exporter or an endpoint.
type tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	plan     func(userID, category string) throttle.Plan
}

// reportTelemetry has OpenTelemetry report its problems in this log.
func reportTelemetry(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reports a problem with the traces", "error", err)
	}))
	otel.SetLogger(logr.FromSlogHandler(withoutValues{log.Handler()}))
}

// withoutValues leaves the values out of lines about variables that can't be read: they may be credentials.
type withoutValues struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h withoutValues) Handle(ctx context.Context, r slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "OpenTelemetry: "+r.Message, r.PC))
}

// newTracer makes a tracer that exports over OTLP/HTTP as the OTEL_ variables say. plan returns the rules of a user's
// category, to name the rule that deferred a notification. With an error the tracer knows this process in part only, or
// is nil.
func newTracer(ctx context.Context, version, process string, plan func(userID,
	category string) throttle.Plan,
) (*tracer, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up the exporter of traces: %w", err)
	}
	described, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "pacer"), attribute.String("service.version", version),
		attribute.String("service.instance.id", process),
	), resource.WithFromEnv())
	if err != nil {
		err = fmt.Errorf("describe this process to the traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &tracer{provider: provider, spans: provider.Tracer("github.com/pacer-notify/pacer"), plan: plan}, err
}

// close exports what is left.
func (t *tracer) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// handler continues the trace of a producer's request.
func (t *tracer) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// spanAttributes describes a notification by its ids, never by its content.
func spanAttributes(n *notification.Notification) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("pacer.notification_id", n.ID), attribute.String("pacer.user_id", n.UserID),
		attribute.String("pacer.category", n.Category), attribute.String("pacer.channel", string(n.Channel)),
	}
}

// accept is intake's Trace. It notes the trace in the notification.
func (t *tracer) accept(ctx context.Context, n *notification.Notification) func(error) {
	ctx, span := t.spans.Start(ctx, "pacer accept", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(spanAttributes(n)...))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	n.TraceParent = carrier.Get("traceparent")
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "the store could not be reached")
		}
		span.End()
	}
}

// deliver is dispatch's Trace. A delivery belongs to the trace of its notification and is linked to the acceptance. The
// first attempt also reports the deferrals before it.
func (t *tracer) deliver(ctx context.Context, g *dispatch.Grant, asked,
	admitted time.Time,
) (context.Context, func(dispatch.Outcome)) {
	n := g.Notification
	accepted := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": n.TraceParent}))
	if !accepted.IsValid() { // accepted without tracing
		return ctx, func(dispatch.Outcome) {}
	}
	parent := trace.ContextWithRemoteSpanContext(ctx, accepted)
	link := trace.WithLinks(trace.Link{SpanContext: accepted})
	if g.Attempt == 1 {
		t.deferrals(parent, g, link)
	}
	ctx, span := t.spans.Start(parent, "pacer deliver", link, trace.WithTimestamp(asked),
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(spanAttributes(n), attribute.Int("pacer.attempt", g.Attempt))...))
	_, decision := t.spans.Start(ctx, "pacer decide", trace.WithTimestamp(asked))
	decision.End(trace.WithTimestamp(admitted))
	ctx, send := t.spans.Start(ctx, "pacer send", trace.WithTimestamp(admitted.Add(g.StartIn)),
		trace.WithSpanKind(trace.SpanKindClient))
	return ctx, func(o dispatch.Outcome) {
		span.SetAttributes(attribute.String("pacer.outcome", o.Reason))
		if o.Failure {
			send.SetStatus(codes.Error, o.Reason)
			span.SetStatus(codes.Error, o.Reason)
		}
		send.End()
		span.End()
	}
}

// deferrals makes a span for each time that a notification was deferred.
func (t *tracer) deferrals(parent context.Context, g *dispatch.Grant, link trace.SpanStartOption) {
	plan := t.plan(g.UserID, g.Category)
	for _, d := range agenda.ParseDeferrals(g.History) {
		rule := player.ReasonOf(plan, d.By)
		_, span := t.spans.Start(parent, "pacer deferred", link, trace.WithTimestamp(d.At),
			trace.WithAttributes(append(spanAttributes(g.Notification), attribute.String("pacer.rule", rule))...))
		span.End(trace.WithTimestamp(d.Until))
	}
}
