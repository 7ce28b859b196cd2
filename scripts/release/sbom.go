package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeSBOM writes what the target's programs are built from, as they say themselves, in the form of CycloneDX.
func (b *build) writeSBOM(t target, bin string) (err error) {
	var infos []*debug.BuildInfo
	for _, program := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(bin, program))
		if err != nil {
			return fmt.Errorf("read what %s is built from: %w", program, err)
		}
		infos = append(infos, info)
	}
	out, err := os.Create(filepath.Join(b.assets, b.name(t)+".cdx.json"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	// 1.5 says all of this, and is read by scanners that know nothing newer.
	return encoder.EncodeVersion(b.sbom(t, infos), cyclonedx.SpecVersion1_5)
}

// sbom lists pacer, the modules that are in at least one of its programs, and Go's own packages.
func (b *build) sbom(t target, infos []*debug.BuildInfo) *cyclonedx.BOM {
	components := map[string]cyclonedx.Component{}
	for _, info := range infos {
		release, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ") // experiments follow a space
		standard := library("stdlib", release)
		components[standard.BOMRef] = standard
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			used := library(module.Path, module.Version)
			components[used.BOMRef] = used
		}
	}
	refs := slices.Sorted(maps.Keys(components))
	list := slices.SortedFunc(maps.Values(components), func(x, y cyclonedx.Component) int {
		return cmp.Compare(x.BOMRef, y.BOMRef)
	})
	pacer := library(infos[0].Main.Path, b.version)
	pacer.Type = cyclonedx.ComponentTypeApplication

	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL,
		[]byte(pacer.PackageURL+"#"+b.commit+"#"+b.name(t))).String()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.time.Format(time.RFC3339),
		Component: &pacer,
		Properties: &[]cyclonedx.Property{
			{Name: "pacer:commit", Value: b.commit},
			{Name: "pacer:target", Value: t.system + "/" + t.architecture},
		},
	}
	bom.Components = &list
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: pacer.BOMRef, Dependencies: &refs}}
	return bom
}

// library is a module as scanners look it up.
func library(path, version string) cyclonedx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, strings.ReplaceAll(version, "+", "%2B"))
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url,
	}
}
