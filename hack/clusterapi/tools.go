//go:build tools

// Package tools keeps the commands that build.py compiles in go.mod and go.sum.
package tools

import (
	_ "sigs.k8s.io/cluster-api"
	_ "sigs.k8s.io/cluster-api/cmd/clusterctl"
)
