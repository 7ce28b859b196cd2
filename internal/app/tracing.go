package app

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// tracer reports what becomes of each notification to OpenTelemetry. A notification has one trace, from the producer's
// request to the delivery, even days later. A span covers only time in which work is done, and is linked to earlier
// spans. Tracing is off unless the standard OTEL_ variables name an exporter or an endpoint.
type tracer struct {
	spans trace.Tracer
	// plan returns the rules of a user's category, to name the rule that deferred a notification.
	plan func(userID, category string) throttle.Plan
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
