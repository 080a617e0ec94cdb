#!/bin/bash
# Opens the SSH port again when its accept queue has filled up: then even a connection from the host itself times out.
# Probes the port once; a port that answers is left alone.
if nc -z -G 3 -w 3 127.0.0.1 22 </dev/null >/dev/null 2>&1; then
    exit 0
fi
launchctl bootout system/com.openssh.sshd </dev/null >/dev/null 2>&1
launchctl bootstrap system "${ROOT:-}/System/Library/LaunchDaemons/ssh.plist" </dev/null
