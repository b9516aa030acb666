// Package web holds the built console of Corvo Cloud as files.
//
// It owns nothing but the embedding. It must not know who serves the files,
// under which headers, or what the console talks to.
//
// Surprising: the package builds on a clone where npm never ran. dist then holds
// only a placeholder, Files has no index.html, and whoever serves it says so.
package web

import (
	"embed"
	"io/fs"
)

// The prefix all: keeps the placeholder, without which an empty dist would not embed.
//
//go:embed all:dist
var dist embed.FS

// Files returns the built console with index.html at its root.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("web: dist is embedded under a constant name: " + err.Error())
	}
	return files
}
