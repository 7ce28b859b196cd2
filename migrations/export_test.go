package migrations

import "testing/fstest"

// Next has one more migration, the next one.
func (m Migrator) Next(up, down string) Migrator {
	all := fstest.MapFS{"90000_next.sql": {Data: []byte("-- +goose Up\n" + up + ";\n-- +goose Down\n" + down + ";\n")}}
	entries, err := files.ReadDir(".")
	for _, entry := range entries {
		text, failed := files.ReadFile(entry.Name())
		if failed != nil {
			err = failed
		}
		all[entry.Name()] = &fstest.MapFile{Data: text}
	}
	if err != nil {
		panic(err) // they are embedded
	}
	m.files = all
	return m
}
