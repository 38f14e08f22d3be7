#!/bin/sh
# The commands of the recording: shows each one like a shell, and runs it.
cd "$(dirname "$0")/../.." || exit 1
printf '$ cargo run -p myapp -- --embedded --apply examples/myapp --log-format plain\n'
# SIGINT is Ctrl+C.
timeout -s INT 6 cargo run -q -p myapp -- --embedded --apply examples/myapp --log-format plain 2>&1 | sed 's|--kubeconfig [^ ]*|--kubeconfig /tmp/demo.kubeconfig|'
