# The same steps as ./test, by name.

# Check the formatting
fmt:
    ./test fmt

# Clippy, warnings denied
lint:
    ./test lint

# All tests, and those of the library again with the other registry
test:
    ./test test registry

# The documentation, warnings denied
doc:
    ./test doc

# The book, and its links
book:
    ./test book

# The minimum Rust version
msrv:
    ./test msrv

# The public API against the last release
semver:
    ./test semver

# The API server's own tests, if its folder changed
apiserver:
    ./test apiserver

# What each object costs, and the size of a program, against their limits
costs:
    ./test costs

# The packages of the published crates
package:
    ./test package

# The published crates, each built from its package alone
unpacked:
    ./test unpacked

# Versions, all tests, a commit and a tag: docs/releasing.md
release VERSION:
    ./release {{VERSION}}
