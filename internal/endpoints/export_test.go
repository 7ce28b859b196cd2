package endpoints

import "context"

// Note notes what is due.
func (d *Directory) Note(ctx context.Context) { d.note(ctx, false) }
