package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// schemas prints the schemas of the OpenAPI v3 documents in a folder, one per line. They come from a running server: the
// published documents lack the enumerations.
func schemas(folder string) {
	all := map[string]map[string]any{}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		var document struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		check(json.Unmarshal(text, &document))
		for name, schema := range document.Components.Schemas {
			all[name] = schema
		}
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
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
