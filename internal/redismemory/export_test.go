package redismemory

import "context"

// Note has the watch know what a look found.
func (w *Watch) Note(ctx context.Context, ratio float64) { w.note(ctx, ratio) }
