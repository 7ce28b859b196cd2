package templates

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxPacked bounds the files of a folder that is packed, in bytes.
const maxPacked = 8 << 20

// ErrTooLarge says that a folder is too large to be packed.
var ErrTooLarge = fmt.Errorf("the templates have more than %d bytes in all", maxPacked)

// Pack puts the templates of a folder into one ZIP file, for [Unpack] in another process.
func Pack(folder fs.FS) ([]byte, error) {
	var packed bytes.Buffer
	archive, total := zip.NewWriter(&packed), 0
	err := fs.WalkDir(folder, ".", func(at string, entry fs.DirEntry, err error) error {
		switch depth := strings.Count(at, "/"); {
		case err != nil:
			return err
		case entry.IsDir() && depth == 0 && at != "." && strings.HasPrefix(path.Base(at), "."):
			return fs.SkipDir // as in Load
		case entry.IsDir() || depth != 2:
			return nil
		}
		source, err := fs.ReadFile(folder, at)
		if err != nil {
			return err
		}
		if total += len(source); total > maxPacked {
			return ErrTooLarge
		}
		file, err := archive.Create(at)
		if err != nil {
			return err
		}
		_, err = file.Write(source)
		return err
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, fmt.Errorf("pack the templates: %w", err)
	}
	return packed.Bytes(), nil
}

// Unpack loads the templates that [Pack] has packed.
func Unpack(packed []byte) (*Set, error) {
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("unpack the templates: %w", err)
	}
	total := uint64(0)
	for _, file := range archive.File {
		if total += file.UncompressedSize64; total > maxPacked {
			return nil, ErrTooLarge
		}
	}
	return Load(archive)
}
