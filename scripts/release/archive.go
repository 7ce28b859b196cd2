package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is one that an archive takes in.
type file struct {
	path string
	mode int64
}

// writeArchive packs the files, in their order, into a folder of the archive. Owner and time are the same wherever it
// is made. The compression is a level of gzip.
func writeArchive(name, folder string, files []file, when time.Time, compression int) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zip, err := gzip.NewWriterLevel(out, compression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	for _, f := range files {
		if err := add(archive, folder, f, when); err != nil {
			return fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

// add packs one file.
func add(archive *tar.Writer, folder string, f file, when time.Time) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		Name: folder + "/" + filepath.Base(f.path), Mode: f.mode, Size: info.Size(), ModTime: when,
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, in)
	return err
}

// checksums is the file that the others are checked with: sha256sum --check SHA256SUMS.
const checksums = "SHA256SUMS"

// writeChecksums writes the sum of each file of the folder into one more, as sha256sum does.
func writeChecksums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(folder, checksums), []byte(lines.String()), 0o644) //nolint:gosec // it is published
}

// sumOf is a file's SHA-256, in hexadecimal.
func sumOf(name string) (string, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}
