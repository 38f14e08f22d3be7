package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// schemas prints the schemas of the OpenAPI v3 documents in a folder, one per line. They come from a running server: the
// published documents lack the enumerations.
func schemas(folder string) {
	all := read[map[string]any](folder, "*.json")
	names := slices.Sorted(maps.Keys(all))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "# Made by schemas.go in this folder; do not edit.")
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, name := range names {
		// In every document, these two name the versions of that document.
		if kinds, _ := all[name]["x-kubernetes-group-version-kind"].([]any); len(kinds) > 1 && isShared(name) {
			all[name]["x-kubernetes-group-version-kind"] = kinds[:1]
		}
		fmt.Fprint(out, name, " ")
		check(encoder.Encode(all[name]))
	}
}

func isShared(name string) bool {
	home := "io.k8s.apimachinery.pkg.apis.meta.v1."
	return name == home+"DeleteOptions" || name == home+"WatchEvent"
}
