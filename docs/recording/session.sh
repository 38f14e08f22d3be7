#!/bin/sh
# The commands of the recording: shows each one as a shell does, and runs it. SIGINT is Ctrl+C.
cd "$(dirname "$0")/../.." || exit 1
echo '$ cargo run -p myapp -- --embedded --apply examples/myapp --log-format plain'
timeout -s INT 5 cargo run -q -p myapp -- --embedded --apply examples/myapp --log-format plain 2>&1
