//go:build tools

// Package tools keeps the command that build.py compiles in go.mod and go.sum.
package tools

import _ "github.com/prometheus/prometheus/cmd/promtool"
